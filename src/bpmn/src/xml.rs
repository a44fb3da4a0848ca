//! Hostile text in, a small tree out.
//!
//! Only what BPMN needs of XML is accepted: UTF-8, elements, attributes, text, the five predefined entities. A document type
//! definition or a custom entity is refused outright, so there is nothing to expand, and size, depth and count are bounded.

use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::{Namespace as RawNamespace, ResolveResult};
use quick_xml::reader::NsReader;
use std::fmt;

/// The largest document that is read, in bytes.
pub(crate) const MAX_BYTES: usize = 4 * 1024 * 1024;
/// The deepest nesting of elements that is read.
pub(crate) const MAX_DEPTH: usize = 64;
/// The most elements that are read.
pub(crate) const MAX_ELEMENTS: usize = 100_000;
/// The most attributes that one element may have.
pub(crate) const MAX_ATTRIBUTES: usize = 128;

/// The vocabularies that mean something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Namespace {
    /// BPMN 2.0's model.
    Bpmn,
    /// BPMN's diagram interchange.
    BpmnDi,
    /// Bounds and points of a diagram.
    Dc,
    /// Edges of a diagram.
    Di,
    /// Zeebe's extension elements.
    Zeebe,
    /// Anything else.
    Other,
}

impl Namespace {
    pub(crate) fn of(resolved: &ResolveResult<'_>) -> Self {
        let ResolveResult::Bound(RawNamespace(uri)) = resolved else {
            return Self::Other;
        };
        match *uri {
            "http://www.omg.org/spec/BPMN/20100524/MODEL" => Self::Bpmn,
            "http://www.omg.org/spec/BPMN/20100524/DI" => Self::BpmnDi,
            "http://www.omg.org/spec/DD/20100524/DC" => Self::Dc,
            "http://www.omg.org/spec/DD/20100524/DI" => Self::Di,
            "http://camunda.org/schema/zeebe/1.0" => Self::Zeebe,
            _ => Self::Other,
        }
    }
}

/// An element with what is inside it.
#[derive(Debug)]
pub(crate) struct Node {
    /// Its vocabulary.
    pub(crate) namespace: Namespace,
    /// Its name without prefix.
    pub(crate) name: String,
    /// Its attributes without prefix, namespace declarations left out, in document order.
    pub(crate) attributes: Vec<(String, String)>,
    /// The elements inside, in document order.
    pub(crate) children: Vec<Node>,
    /// The text directly inside, concatenated.
    pub(crate) text: String,
    /// Where it starts, from 1.
    pub(crate) line: usize,
}

impl Node {
    /// Whether this is the element `name` of `namespace`.
    pub(crate) fn is(&self, namespace: Namespace, name: &str) -> bool {
        self.namespace == namespace && self.name == name
    }

    /// The attribute's value, as written.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The children of that name.
    pub(crate) fn children<'a>(&'a self, namespace: Namespace, name: &'a str) -> impl Iterator<Item = &'a Node> {
        self.children.iter().filter(move |child| child.is(namespace, name))
    }

    /// The first child of that name.
    pub(crate) fn child<'a>(&'a self, namespace: Namespace, name: &'a str) -> Option<&'a Node> {
        self.children(namespace, name).next()
    }
}

/// Why a text is not read, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct XmlError {
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl fmt::Display for XmlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// Reads one document and gives its root element.
pub(crate) fn read(bytes: &[u8]) -> Result<Node, XmlError> {
    if bytes.len() > MAX_BYTES {
        let message = format!("the file has {} bytes; at most {MAX_BYTES} are read", bytes.len());
        return Err(XmlError { line: 1, message });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| XmlError {
        line: 1 + count_lines(bytes.get(..error.valid_up_to()).unwrap_or_default()),
        message: "the text is not UTF-8; save the file as UTF-8".to_owned(),
    })?;
    Builder::new(text.trim_start_matches('\u{feff}')).run()
}

fn count_lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

struct Builder<'a> {
    text: &'a str,
    reader: NsReader<&'a [u8]>,
    /// The position up to which `line` has been counted.
    counted: usize,
    line: usize,
    open: Vec<Node>,
    root: Option<Node>,
    elements: usize,
}

impl<'a> Builder<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, reader: NsReader::from_str(text), counted: 0, line: 1, open: Vec::new(), root: None, elements: 0 }
    }

    fn run(mut self) -> Result<Node, XmlError> {
        loop {
            self.count_to(self.reader.buffer_position());
            let event = match self.reader.read_event() {
                Ok(event) => event,
                Err(error) => {
                    self.count_to(self.reader.error_position());
                    return Err(self.refuse(error.to_string()));
                }
            };
            match event {
                Event::Start(start) => {
                    let node = self.element(&start)?;
                    if self.open.len() >= MAX_DEPTH {
                        return Err(self.refuse(format!("elements are nested more than {MAX_DEPTH} deep")));
                    }
                    self.open.push(node);
                }
                Event::Empty(start) => {
                    let node = self.element(&start)?;
                    self.close(node)?;
                }
                Event::End(_) => {
                    if let Some(node) = self.open.pop() {
                        self.close(node)?;
                    }
                }
                Event::Text(text) => self.append(&text.xml10_content())?,
                Event::CData(text) => self.append(&text.xml10_content())?,
                Event::GeneralRef(reference) => {
                    let replacement = match reference.resolve_char_ref() {
                        Ok(Some(character)) => character.to_string(),
                        Ok(None) => predefined(&reference).map(str::to_owned).ok_or_else(|| {
                            self.refuse(format!(
                                "the entity &{}; is not known; only &lt; &gt; &amp; &quot; &apos; are",
                                &*reference
                            ))
                        })?,
                        Err(error) => return Err(self.refuse(error.to_string())),
                    };
                    self.append(&replacement)?;
                }
                Event::DocType(_) => {
                    return Err(
                        self.refuse("a document type definition (<!DOCTYPE …>) is refused; remove it".to_owned())
                    );
                }
                Event::Decl(declaration) => {
                    if let Some(Ok(encoding)) = declaration.encoding()
                        && !encoding.eq_ignore_ascii_case("utf-8")
                    {
                        return Err(
                            self.refuse(format!("the encoding {encoding:?} is refused; save the file as UTF-8"))
                        );
                    }
                }
                Event::Comment(_) | Event::PI(_) => {}
                Event::Eof => break,
            }
        }
        if let Some(open) = self.open.pop() {
            return Err(XmlError { line: open.line, message: format!("<{}> is not closed", open.name) });
        }
        let line = self.line;
        self.root.ok_or_else(|| XmlError { line, message: "there is no element; is this a BPMN file?".to_owned() })
    }

    fn element(&mut self, start: &BytesStart<'_>) -> Result<Node, XmlError> {
        self.elements += 1;
        if self.elements > MAX_ELEMENTS {
            return Err(self.refuse(format!("more than {MAX_ELEMENTS} elements")));
        }
        let (resolved, local) = self.reader.resolver().resolve_element(start.name());
        let namespace = Namespace::of(&resolved);
        let name = local.into_inner().to_owned();
        let mut attributes: Vec<(String, String)> = Vec::new();
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| self.refuse(format!("<{name}>: {error}")))?;
            if attributes.len() >= MAX_ATTRIBUTES {
                return Err(self.refuse(format!("<{name}> has more than {MAX_ATTRIBUTES} attributes")));
            }
            if attribute.key.as_namespace_binding().is_some() {
                continue;
            }
            let value = attribute
                .normalized_value(XmlVersion::Implicit1_0)
                .map_err(|error| self.refuse(format!("<{name}>: {error}")))?;
            // A foreign attribute (modeler:…, zeebe:… on a BPMN element) must not pass for BPMN's own of the same name.
            let key = match attribute.key.prefix() {
                None => attribute.key.local_name().into_inner().to_owned(),
                Some(_) => attribute.key.into_inner().to_owned(),
            };
            attributes.push((key, value.into_owned()));
        }
        Ok(Node { namespace, name, attributes, children: Vec::new(), text: String::new(), line: self.line })
    }

    fn close(&mut self, node: Node) -> Result<(), XmlError> {
        match self.open.last_mut() {
            Some(parent) => parent.children.push(node),
            None if self.root.is_some() => return Err(self.refuse(format!("<{}> follows the root element", node.name))),
            None => self.root = Some(node),
        }
        Ok(())
    }

    fn append(&mut self, text: &str) -> Result<(), XmlError> {
        match self.open.last_mut() {
            Some(node) => node.text.push_str(text),
            None if text.trim().is_empty() => {}
            None => return Err(self.refuse("text outside the root element; is this a BPMN file?".to_owned())),
        }
        Ok(())
    }

    fn count_to(&mut self, position: u64) {
        let position = usize::try_from(position).unwrap_or(usize::MAX).min(self.text.len());
        if let Some(read) = self.text.as_bytes().get(self.counted..position) {
            self.line += count_lines(read);
            self.counted = position;
        }
    }

    fn refuse(&self, message: String) -> XmlError {
        XmlError { line: self.line, message }
    }
}

fn predefined(name: &str) -> Option<&'static str> {
    match name {
        "lt" => Some("<"),
        "gt" => Some(">"),
        "amp" => Some("&"),
        "quot" => Some("\""),
        "apos" => Some("'"),
        _ => None,
    }
}
