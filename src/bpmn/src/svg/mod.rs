//! The process as a picture, from the file's own diagram interchange, with one path marked: what `m87 bpmn check` shows of a
//! counterexample, and what a report shows of a run. The same model and path give the same bytes.

mod shapes;
#[cfg(test)]
mod tests;
mod text;

use crate::model::{Bounds, Definitions, Diagram, Edge, Flow, Point, Process};
use std::collections::HashSet;
use std::fmt::Write;

/// Pixels left free around the drawing.
const MARGIN: f64 = 20.0;

/// What the shapes look like. Only presentation: every meaning is in the shapes themselves.
const STYLE: &str = "\
text{font:12px 'Helvetica Neue',Arial,'Liberation Sans',sans-serif;fill:#1f2933;text-anchor:middle}\
.pool{fill:#fff;stroke:#52606d}.lane{fill:none;stroke:#cbd2d9}.lane-name,.pool-name{font-weight:600;fill:#52606d}\
.node{fill:#fff;stroke:#323f4b;stroke-width:1.5}.task{fill:#f5f7fa}.group{fill:none}\
.end{stroke-width:3.5}.complete{stroke:#0b7a4b;fill:#e9f7ef}.refusal{stroke:#b42318;fill:#fdeeec}\
.mark{fill:none;stroke:#323f4b;stroke-width:2.5}.solid{fill:#323f4b;stroke:none}.gear{fill:none;stroke:#7b8794}\
.flow{fill:none;stroke:#52606d;stroke-width:1.5;stroke-linejoin:round}.label{font-size:11px;fill:#52606d}\
.on.node{stroke:#d9480f;stroke-width:3;fill:#fff4e6}.on.flow{stroke:#d9480f;stroke-width:3}.on.label{fill:#d9480f;font-weight:600}";

/// Draws the file's first diagram as SVG; `highlight` names the elements and flows of a path, in order.
///
/// A flow is marked if it is named, or if it leads from one named element to the next. A file without a diagram gives a
/// picture that says so.
pub fn draw(definitions: &Definitions, highlight: &[String]) -> String {
    let empty = Diagram::default();
    let diagram = definitions.diagram.as_ref().unwrap_or(&empty);
    let Some(frame) = frame(diagram) else {
        return nothing();
    };
    let mut svg = open(frame, definitions);
    let path = Path::new(highlight);
    for participant in &definitions.participants {
        if let Some(shape) = diagram.shape(&participant.id) {
            shapes::pool(&mut svg, shape.bounds, participant.name.as_deref().unwrap_or_default());
        }
    }
    for process in &definitions.processes {
        for lane in &process.lanes {
            if let Some(shape) = diagram.shape(&lane.id) {
                shapes::lane(&mut svg, shape.bounds, lane.name.as_deref().unwrap_or_default());
            }
        }
    }
    for process in &definitions.processes {
        nodes_and_flows(&mut svg, process, diagram, &path);
    }
    svg.push_str("</svg>\n");
    svg
}

fn nodes_and_flows(svg: &mut String, process: &Process, diagram: &Diagram, path: &Path<'_>) {
    // What is marked is drawn last, so that it lies on top where lines cross.
    for marked in [false, true] {
        for flow in &process.flows {
            if let Some(edge) = diagram.edge(&flow.id)
                && path.has_flow(flow) == marked
            {
                self::flow(svg, process, flow, edge, marked);
            }
        }
    }
    for element in &process.elements {
        if let Some(shape) = diagram.shape(&element.id) {
            shapes::element(svg, element, shape, path.has(&element.id));
        }
    }
}

/// Which elements and flows are marked.
struct Path<'a> {
    ids: HashSet<&'a str>,
    steps: HashSet<(&'a str, &'a str)>,
}

impl<'a> Path<'a> {
    fn new(highlight: &'a [String]) -> Self {
        let ids = highlight.iter().map(String::as_str).collect();
        let steps =
            highlight.iter().zip(highlight.iter().skip(1)).map(|(from, to)| (from.as_str(), to.as_str())).collect();
        Self { ids, steps }
    }

    fn has(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    fn has_flow(&self, flow: &Flow) -> bool {
        self.has(&flow.id) || self.steps.contains(&(flow.source.as_str(), flow.target.as_str()))
    }
}

fn flow(svg: &mut String, process: &Process, flow: &Flow, edge: &Edge, marked: bool) {
    let on = if marked { " on" } else { "" };
    let head = if marked { "head-on" } else { "head" };
    let points: Vec<String> = edge.points.iter().map(|point| format!("{},{}", px(point.x), px(point.y))).collect();
    let _ = writeln!(svg, "<polyline class=\"flow{on}\" points=\"{}\" marker-end=\"url(#{head})\"/>", points.join(" "));
    let is_default = process.element(&flow.source).is_some_and(|source| source.default.as_ref() == Some(&flow.id));
    if let (true, [first, second, ..]) = (is_default, edge.points.as_slice()) {
        slash(svg, *first, *second, on);
    }
    if let (Some(name), Some(label)) = (&flow.name, edge.label) {
        text::block(svg, &format!("label{on}"), name, label);
    }
}

/// BPMN's mark of a default flow: a stroke across the line near its start.
fn slash(svg: &mut String, from: Point, to: Point, on: &str) {
    let (dx, dy) = (to.x - from.x, to.y - from.y);
    let length = dx.hypot(dy);
    if length < 1.0 {
        return;
    }
    let (ux, uy) = (dx / length, dy / length);
    let middle = Point { x: from.x + ux * 10.0, y: from.y + uy * 10.0 };
    // The stroke leans 45° against the line.
    let (sx, sy) = ((ux - uy) * 4.5, (ux + uy) * 4.5);
    let _ = writeln!(
        svg,
        "<path class=\"flow{on}\" d=\"M{} {}L{} {}\"/>",
        px(middle.x - sx),
        px(middle.y - sy),
        px(middle.x + sx),
        px(middle.y + sy)
    );
}

fn open(frame: Bounds, definitions: &Definitions) -> String {
    let title =
        definitions.processes.first().map(|process| process.name.as_deref().unwrap_or(&process.id)).unwrap_or_default();
    let arrow = |id: &str, colour: &str, size: f64| {
        format!(
            "<marker id=\"{id}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"{size}\" markerHeight=\"{size}\" \
             markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 1L10 5L0 9z\" fill=\"{colour}\"/></marker>"
        )
    };
    let (x, y, width, height) = (px(frame.x), px(frame.y), px(frame.width), px(frame.height));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{x} {y} {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>\n<defs>{}{}</defs>\n\
         <rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n",
        text::escape(title),
        arrow("head", "#52606d", 10.0),
        arrow("head-on", "#d9480f", 13.0),
    )
}

fn nothing() -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 420 60\" width=\"420\" height=\"60\" role=\"img\">\n\
         <style>{STYLE}</style>\n<text x=\"210\" y=\"34\">This model has no diagram (bpmndi:BPMNDiagram).</text>\n</svg>\n"
    )
}

/// The rectangle around everything that is drawn; `None` if nothing is.
fn frame(diagram: &Diagram) -> Option<Bounds> {
    let boxes = diagram.shapes.iter().flat_map(|shape| std::iter::once(shape.bounds).chain(shape.label));
    let points = diagram.edges.iter().flat_map(|edge| edge.points.iter().copied());
    let labels = diagram.edges.iter().filter_map(|edge| edge.label);
    let corners = boxes
        .chain(labels)
        .flat_map(|area| [Point { x: area.x, y: area.y }, Point { x: area.x + area.width, y: area.y + area.height }])
        .chain(points);
    let (low, high) = corners.fold(None, |frame: Option<(Point, Point)>, point| {
        let (low, high) = frame.unwrap_or((point, point));
        Some((
            Point { x: low.x.min(point.x), y: low.y.min(point.y) },
            Point { x: high.x.max(point.x), y: high.y.max(point.y) },
        ))
    })?;
    Some(Bounds {
        x: low.x - MARGIN,
        y: low.y - MARGIN,
        width: high.x - low.x + 2.0 * MARGIN,
        height: high.y - low.y + 2.0 * MARGIN,
    })
}

/// A coordinate with at most one digit after the point.
fn px(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
