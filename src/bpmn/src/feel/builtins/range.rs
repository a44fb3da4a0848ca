//! How points and ranges lie to each other (Allen's relations). All are defined by the order of ends; a point is an end
//! that is included on both sides.

use std::cmp::Ordering;

use super::{Answer, Builtin, Refusal, Value, function};
use crate::feel::compare::order;
use crate::feel::value::Range;

pub(super) const FUNCTIONS: &[Builtin] = &[
    function("before", &["point1", "point2"], |_, arguments| relate(arguments, before)),
    function("before", &["point", "range"], |_, arguments| relate(arguments, before)),
    function("before", &["range1", "range2"], |_, arguments| relate(arguments, before)),
    function("after", &["point1", "point2"], |_, arguments| relate(arguments, |x, y| before(y, x))),
    function("after", &["point", "range"], |_, arguments| relate(arguments, |x, y| before(y, x))),
    function("after", &["range1", "range2"], |_, arguments| relate(arguments, |x, y| before(y, x))),
    function("meets", &["range1", "range2"], |_, arguments| ranges(arguments, meets)),
    function("met by", &["range1", "range2"], |_, arguments| ranges(arguments, |x, y| meets(y, x))),
    function("overlaps", &["range1", "range2"], |_, arguments| {
        ranges(arguments, |x, y| Some(!before(x, y)? && !before(y, x)?))
    }),
    function("overlaps before", &["range1", "range2"], |_, arguments| ranges(arguments, overlaps_before)),
    function("overlaps after", &["range1", "range2"], |_, arguments| ranges(arguments, |x, y| overlaps_before(y, x))),
    function("finishes", &["point", "range"], |_, arguments| in_range(arguments, finishes)),
    function("finishes", &["range1", "range2"], |_, arguments| in_range(arguments, finishes)),
    function("finished by", &["range", "point"], |_, arguments| of_range(arguments, finishes)),
    function("finished by", &["range1", "range2"], |_, arguments| of_range(arguments, finishes)),
    function("includes", &["range", "point"], |_, arguments| of_range(arguments, during)),
    function("includes", &["range1", "range2"], |_, arguments| of_range(arguments, during)),
    function("during", &["point", "range"], |_, arguments| in_range(arguments, during)),
    function("during", &["range1", "range2"], |_, arguments| in_range(arguments, during)),
    function("starts", &["point", "range"], |_, arguments| in_range(arguments, starts)),
    function("starts", &["range1", "range2"], |_, arguments| in_range(arguments, starts)),
    function("started by", &["range", "point"], |_, arguments| of_range(arguments, starts)),
    function("started by", &["range1", "range2"], |_, arguments| of_range(arguments, starts)),
    function("coincides", &["point1", "point2"], |_, arguments| relate(arguments, coincides)),
    function("coincides", &["range1", "range2"], |_, arguments| relate(arguments, coincides)),
];

/// A relation; nothing if the ends do not compare.
type Relation = fn(&Range, &Range) -> Option<bool>;

fn span(value: &Value) -> Range {
    match value {
        Value::Range(range) => Range {
            start: range.start.clone(),
            end: range.end.clone(),
            start_included: range.start_included,
            end_included: range.end_included,
        },
        point => Range { start: point.clone(), end: point.clone(), start_included: true, end_included: true },
    }
}

fn relate(arguments: &[Value], relation: Relation) -> Answer {
    let [x, y] = arguments else { return Err(Refusal::Illegal) };
    if matches!((x, y), (Value::String(_), _) | (_, Value::String(_))) {
        return Err(Refusal::Illegal);
    }
    relation(&span(x), &span(y)).map(Value::Boolean).ok_or(Refusal::Illegal)
}

fn ranges(arguments: &[Value], relation: Relation) -> Answer {
    match arguments {
        [Value::Range(_), Value::Range(_)] => relate(arguments, relation),
        _ => Err(Refusal::Illegal),
    }
}

/// A point or range, and then a range.
fn in_range(arguments: &[Value], relation: Relation) -> Answer {
    match arguments {
        [_, Value::Range(_)] => relate(arguments, relation),
        _ => Err(Refusal::Illegal),
    }
}

/// A range, and then a point or range: the relation the other way round.
fn of_range(arguments: &[Value], relation: Relation) -> Answer {
    match arguments {
        [x @ Value::Range(_), y] => relation(&span(y), &span(x)).map(Value::Boolean).ok_or(Refusal::Illegal),
        _ => Err(Refusal::Illegal),
    }
}

/// `x` begins no later than `y`, an included start being earlier than one that is not.
fn starts_no_later(x: &Range, y: &Range) -> Option<bool> {
    let order = order(&x.start, &y.start)?;
    Some(order.is_lt() || (order.is_eq() && (x.start_included || !y.start_included)))
}

/// `x` ends no later than `y`, an included end being later than one that is not.
fn ends_no_later(x: &Range, y: &Range) -> Option<bool> {
    let order = order(&x.end, &y.end)?;
    Some(order.is_lt() || (order.is_eq() && (y.end_included || !x.end_included)))
}

fn before(x: &Range, y: &Range) -> Option<bool> {
    let order = order(&x.end, &y.start)?;
    Some(order.is_lt() || (order.is_eq() && !(x.end_included && y.start_included)))
}

fn meets(x: &Range, y: &Range) -> Option<bool> {
    Some(order(&x.end, &y.start)?.is_eq() && x.end_included && y.start_included)
}

fn overlaps_before(x: &Range, y: &Range) -> Option<bool> {
    let begins_earlier = starts_no_later(x, y)? && !starts_no_later(y, x)?;
    Some(begins_earlier && !before(x, y)? && ends_no_later(x, y)?)
}

/// `x` is the last part of `y`.
fn finishes(x: &Range, y: &Range) -> Option<bool> {
    Some(order(&x.end, &y.end)? == Ordering::Equal && x.end_included == y.end_included && starts_no_later(y, x)?)
}

/// `x` is the first part of `y`.
fn starts(x: &Range, y: &Range) -> Option<bool> {
    Some(order(&x.start, &y.start)? == Ordering::Equal && x.start_included == y.start_included && ends_no_later(x, y)?)
}

fn during(x: &Range, y: &Range) -> Option<bool> {
    Some(starts_no_later(y, x)? && ends_no_later(x, y)?)
}

fn coincides(x: &Range, y: &Range) -> Option<bool> {
    let ends = order(&x.start, &y.start)?.is_eq() && order(&x.end, &y.end)?.is_eq();
    Some(ends && x.start_included == y.start_included && x.end_included == y.end_included)
}
