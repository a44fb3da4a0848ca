//! One function for each kind of shape.

use super::{px, text};
use crate::model::{Bounds, Element, EventDefinition, Kind, Shape, TaskKind};
use m87_core::reason::Terminal;
use std::fmt::Write;

pub(super) fn pool(svg: &mut String, area: Bounds, name: &str) {
    rectangle(svg, "pool", area, 0.0);
    text::upright(svg, "pool-name", name, area);
    let (x, y) = (px(area.x + 30.0), px(area.y));
    let _ = writeln!(svg, "<path class=\"pool\" d=\"M{x} {y}v{}\"/>", px(area.height));
}

pub(super) fn lane(svg: &mut String, area: Bounds, name: &str) {
    rectangle(svg, "lane", area, 0.0);
    text::upright(svg, "lane-name", name, area);
}

/// Draws one flow node with its name.
pub(super) fn element(svg: &mut String, element: &Element, shape: &Shape, marked: bool) {
    let on = if marked { " on" } else { "" };
    let area = shape.bounds;
    let inside = match &element.kind {
        Kind::StartEvent => {
            circle(svg, &format!("node{on}"), area, 0.0);
            false
        }
        Kind::EndEvent => {
            circle(svg, &format!("node end{}{on}", outcome(element)), area, 0.0);
            false
        }
        Kind::BoundaryEvent { .. } | Kind::CatchEvent | Kind::ThrowEvent => {
            circle(svg, &format!("node{on}"), area, 0.0);
            circle(svg, &format!("node{on}"), area, 3.0);
            false
        }
        Kind::ExclusiveGateway => {
            diamond(svg, on, area);
            cross(svg, area, true);
            false
        }
        Kind::ParallelGateway => {
            diamond(svg, on, area);
            cross(svg, area, false);
            false
        }
        Kind::Task(kind) => {
            rectangle(svg, &format!("node task{on}"), area, 8.0);
            if !matches!(kind, TaskKind::Manual | TaskKind::Undefined) {
                gear(svg, area);
            }
            true
        }
        Kind::SubProcess => {
            rectangle(svg, &format!("node group{on}"), area, 8.0);
            let title = Bounds { height: 22.0, ..area };
            text::block(svg, "name", element.title(), title);
            return;
        }
        Kind::Other(tag) if tag.ends_with("Gateway") => {
            diamond(svg, on, area);
            false
        }
        Kind::Other(_) => {
            rectangle(svg, &format!("node task{on}"), area, 8.0);
            true
        }
    };
    for event in &element.events {
        mark(svg, event, area);
    }
    let on = if marked { " on" } else { "" };
    if inside {
        text::block(
            svg,
            "name",
            element.title(),
            Bounds { x: area.x + 2.0, width: (area.width - 4.0).max(0.0), ..area },
        );
    } else if let Some(name) = &element.name {
        let below = Bounds { x: area.x - 30.0, y: area.y + area.height + 4.0, width: area.width + 60.0, height: 14.0 };
        text::block(svg, &format!("label{on}"), name, shape.label.unwrap_or(below));
    }
}

/// An end's colour says whether it is the one that is meant to be reached.
fn outcome(element: &Element) -> &'static str {
    match Terminal::of_end_event(&element.id) {
        Some(Terminal::Complete) => " complete",
        Some(Terminal::Halt | Terminal::RejectManifest | Terminal::Failed | Terminal::RejectVerify) => " refusal",
        None => "",
    }
}

fn rectangle(svg: &mut String, class: &str, area: Bounds, radius: f64) {
    let (x, y, width, height) = (px(area.x), px(area.y), px(area.width), px(area.height));
    let _ = writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{radius}\"/>"
    );
}

fn circle(svg: &mut String, class: &str, area: Bounds, inset: f64) {
    let (x, y) = middle(area);
    let radius = (area.width.min(area.height) / 2.0 - inset).max(0.0);
    let _ = writeln!(svg, "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"{}\"/>", px(x), px(y), px(radius));
}

fn diamond(svg: &mut String, on: &str, area: Bounds) {
    let (x, y) = middle(area);
    let (left, top, right, bottom) = (px(area.x), px(area.y), px(area.x + area.width), px(area.y + area.height));
    let (x, y) = (px(x), px(y));
    let _ = writeln!(svg, "<path class=\"node{on}\" d=\"M{x} {top}L{right} {y}L{x} {bottom}L{left} {y}z\"/>");
}

fn cross(svg: &mut String, area: Bounds, diagonal: bool) {
    let (x, y) = middle(area);
    let reach = area.width.min(area.height) * if diagonal { 0.15 } else { 0.24 };
    let turn = if diagonal { [(-1.0, -1.0), (-1.0, 1.0)] } else { [(-1.0, 0.0), (0.0, -1.0)] };
    for (dx, dy) in turn {
        let (from_x, from_y) = (px(x + dx * reach), px(y + dy * reach));
        let (to_x, to_y) = (px(x - dx * reach), px(y - dy * reach));
        let _ = writeln!(svg, "<path class=\"mark\" d=\"M{from_x} {from_y}L{to_x} {to_y}\"/>");
    }
}

/// A small cog in the corner: a worker does this.
fn gear(svg: &mut String, area: Bounds) {
    let (x, y) = (px(area.x + 12.0), px(area.y + 12.0));
    let _ = writeln!(
        svg,
        "<circle class=\"gear\" cx=\"{x}\" cy=\"{y}\" r=\"5\" stroke-width=\"3\" stroke-dasharray=\"2.1 1.83\"/>\
         <circle class=\"gear\" cx=\"{x}\" cy=\"{y}\" r=\"3.2\" stroke-width=\"1.4\"/>"
    );
}

fn mark(svg: &mut String, event: &EventDefinition, area: Bounds) {
    let (x, y) = middle(area);
    let reach = area.width.min(area.height) / 2.0;
    let (x, y, r) = (px(x), px(y), px(reach));
    let _ = match event {
        EventDefinition::Terminate => {
            writeln!(svg, "<circle class=\"solid\" cx=\"{x}\" cy=\"{y}\" r=\"{}\"/>", px(reach * 0.55))
        }
        EventDefinition::Error { .. } => {
            let (half, third) = (px(r * 0.45), px(r * 0.2));
            writeln!(
                svg,
                "<path class=\"solid\" d=\"M{} {}L{} {}L{} {}L{} {}L{} {}L{} {}z\"/>",
                px(x - half),
                px(y + half),
                px(x - third),
                px(y - half),
                px(x + third * 0.6),
                px(y + third * 0.4),
                px(x + half),
                px(y - half),
                px(x + third),
                px(y + half),
                px(x - third * 0.6),
                px(y - third * 0.2)
            )
        }
        EventDefinition::Timer { .. } => writeln!(
            svg,
            "<circle class=\"gear\" cx=\"{x}\" cy=\"{y}\" r=\"{}\"/><path class=\"gear\" d=\"M{x} {}V{y}H{}\"/>",
            px(reach * 0.55),
            px(y - reach * 0.35),
            px(x + reach * 0.3)
        ),
        EventDefinition::Message { .. } => writeln!(
            svg,
            "<path class=\"gear\" d=\"M{} {}h{w}v{h}h-{w}z l{} {} l{} -{}\"/>",
            px(x - reach * 0.5),
            px(y - reach * 0.35),
            px(reach * 0.5),
            px(reach * 0.35),
            px(reach * 0.5),
            px(reach * 0.35),
            w = px(reach),
            h = px(reach * 0.7)
        ),
        EventDefinition::Other(_) => Ok(()),
    };
}

fn middle(area: Bounds) -> (f64, f64) {
    (area.x + area.width / 2.0, area.y + area.height / 2.0)
}
