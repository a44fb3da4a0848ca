//! Where the model's parts are drawn: BPMN's diagram interchange, without styling.

use super::ParseError;
use crate::xml::{Namespace, Node};

/// The first diagram of a file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Diagram {
    /// Boxes, in document order.
    pub shapes: Vec<Shape>,
    /// Lines, in document order.
    pub edges: Vec<Edge>,
}

/// The box of one element, lane or pool.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// The id of what is drawn.
    pub of: String,
    /// Where.
    pub bounds: Bounds,
    /// Where its name is written, if not inside.
    pub label: Option<Bounds>,
}

/// The line of one flow.
#[derive(Debug, Clone, PartialEq)]
pub struct Edge {
    /// The id of what is drawn.
    pub of: String,
    /// From source to target, at least two.
    pub points: Vec<Point>,
    /// Where its name is written.
    pub label: Option<Bounds>,
}

/// A rectangle, in pixels, y downwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Left.
    pub x: f64,
    /// Top.
    pub y: f64,
    /// To the right.
    pub width: f64,
    /// Down.
    pub height: f64,
}

/// A point, in pixels, y downwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// To the right.
    pub x: f64,
    /// Down.
    pub y: f64,
}

impl Diagram {
    /// The box of that element, lane or pool.
    pub fn shape(&self, id: &str) -> Option<&Shape> {
        self.shapes.iter().find(|shape| shape.of == id)
    }

    /// The line of that flow.
    pub fn edge(&self, id: &str) -> Option<&Edge> {
        self.edges.iter().find(|edge| edge.of == id)
    }
}

pub(super) fn read(definitions: &Node) -> Result<Option<Diagram>, ParseError> {
    let Some(plane) = definitions
        .child(Namespace::BpmnDi, "BPMNDiagram")
        .and_then(|diagram| diagram.child(Namespace::BpmnDi, "BPMNPlane"))
    else {
        return Ok(None);
    };
    let mut diagram = Diagram::default();
    for node in &plane.children {
        let Some(of) = node.attribute("bpmnElement").map(str::to_owned) else {
            continue;
        };
        let label =
            match node.child(Namespace::BpmnDi, "BPMNLabel").and_then(|label| label.child(Namespace::Dc, "Bounds")) {
                Some(bounds) => Some(read_bounds(bounds)?),
                None => None,
            };
        if node.is(Namespace::BpmnDi, "BPMNShape") {
            let bounds =
                node.child(Namespace::Dc, "Bounds").ok_or_else(|| refuse(node, "the shape has no dc:Bounds"))?;
            diagram.shapes.push(Shape { of, bounds: read_bounds(bounds)?, label });
        } else if node.is(Namespace::BpmnDi, "BPMNEdge") {
            let points = node
                .children(Namespace::Di, "waypoint")
                .map(|point| Ok(Point { x: number(point, "x")?, y: number(point, "y")? }))
                .collect::<Result<Vec<_>, ParseError>>()?;
            if points.len() < 2 {
                return Err(refuse(node, "the edge has fewer than two di:waypoint"));
            }
            diagram.edges.push(Edge { of, points, label });
        }
    }
    Ok(Some(diagram))
}

fn read_bounds(node: &Node) -> Result<Bounds, ParseError> {
    let bounds = Bounds {
        x: number(node, "x")?,
        y: number(node, "y")?,
        width: number(node, "width")?,
        height: number(node, "height")?,
    };
    if bounds.width < 0.0 || bounds.height < 0.0 {
        return Err(refuse(node, "width and height must not be negative"));
    }
    Ok(bounds)
}

/// The largest coordinate that is drawn: beyond it a picture is a mistake.
const FAR: f64 = 1_000_000.0;

fn number(node: &Node, name: &str) -> Result<f64, ParseError> {
    node.attribute(name)
        .and_then(|text| text.trim().parse::<f64>().ok())
        .filter(|number| number.is_finite() && number.abs() <= FAR)
        .ok_or_else(|| refuse(node, &format!("the attribute {name} must be a number of pixels up to {FAR}")))
}

fn refuse(node: &Node, message: &str) -> ParseError {
    ParseError { line: node.line, element: None, message: format!("<{}>: {message}", node.name) }
}
