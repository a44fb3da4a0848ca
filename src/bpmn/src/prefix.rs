//! One process, kept apart in a shared engine: its id and the types of its jobs get a prefix, and nothing else changes.
//!
//! What is proved, pinned and hashed is the process without the prefix; this is how it is sent.

use crate::xml::{MAX_BYTES, Namespace};
use quick_xml::Writer;
use quick_xml::events::attributes::Attribute;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::NsReader;

/// A process that cannot be given a prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the process cannot be given the prefix {prefix:?}: {cause}")]
pub struct PrefixError {
    /// The prefix.
    pub prefix: String,
    /// What is in the way.
    pub cause: String,
}

/// The file with the prefix on the ids of its processes, on what refers to these, and on every job type.
///
/// # Errors
/// If the file is not well-formed XML, or a job type is an expression.
pub fn prefixed(bpmn: &str, prefix: &str) -> Result<String, PrefixError> {
    let refuse = |cause: String| PrefixError { prefix: prefix.to_owned(), cause };
    if bpmn.len() > MAX_BYTES {
        return Err(refuse(format!("it is longer than {MAX_BYTES} bytes")));
    }
    let ids = process_ids(bpmn).map_err(refuse)?;
    let mut writer = Writer::new(Vec::with_capacity(bpmn.len() + 512));
    walk(bpmn, |namespace, event| {
        let event = match event {
            Event::Start(tag) => Event::Start(rewritten(namespace, &tag, &ids, prefix)?),
            Event::Empty(tag) => Event::Empty(rewritten(namespace, &tag, &ids, prefix)?),
            other => other,
        };
        writer.write_event(event).map_err(|error| error.to_string())
    })
    .map_err(refuse)?;
    String::from_utf8(writer.into_inner()).map_err(|error| refuse(error.to_string()))
}

/// Each event with the vocabulary of its element.
fn walk<'a>(bpmn: &'a str, mut visit: impl FnMut(Namespace, Event<'a>) -> Result<(), String>) -> Result<(), String> {
    let mut reader = NsReader::from_str(bpmn);
    loop {
        let (resolved, event) = reader.read_resolved_event().map_err(|error| error.to_string())?;
        let namespace = Namespace::of(&resolved);
        match event {
            Event::Eof => return Ok(()),
            event => visit(namespace, event)?,
        }
    }
}

fn process_ids(bpmn: &str) -> Result<Vec<String>, String> {
    let mut ids = Vec::new();
    walk(bpmn, |namespace, event| {
        if let (Namespace::Bpmn, Event::Start(tag) | Event::Empty(tag)) = (namespace, &event)
            && tag.local_name().as_ref() == "process"
        {
            for attribute in tag.attributes() {
                let Attribute { key, value } = attribute.map_err(|error| error.to_string())?;
                if key.as_ref() == "id" {
                    ids.push(value.into_owned());
                }
            }
        }
        Ok(())
    })?;
    Ok(ids)
}

/// What an attribute is, if the prefix belongs on it.
fn carries(namespace: Namespace, element: &str, attribute: &str, value: &str, ids: &[String]) -> bool {
    let names_process = || ids.iter().any(|id| id == value);
    match (namespace, element, attribute) {
        (Namespace::Bpmn, "process", "id") | (Namespace::Zeebe, "taskDefinition" | "executionListener", "type") => true,
        (Namespace::Bpmn, "participant", "processRef") | (Namespace::BpmnDi, "BPMNPlane", "bpmnElement") => {
            names_process()
        }
        _ => false,
    }
}

fn rewritten<'a>(
    namespace: Namespace,
    tag: &BytesStart<'a>,
    ids: &[String],
    prefix: &str,
) -> Result<BytesStart<'a>, String> {
    let element = tag.local_name();
    let attributes: Vec<Attribute<'_>> =
        tag.attributes().collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let concerned = |it: &Attribute<'_>| carries(namespace, element.as_ref(), it.key.as_ref(), &it.value, ids);
    if !attributes.iter().any(concerned) {
        return Ok(tag.clone());
    }
    let mut changed = tag.clone();
    changed.clear_attributes();
    for attribute in &attributes {
        if !concerned(attribute) {
            changed.push_attribute(attribute.clone());
            continue;
        }
        if attribute.value.trim_start().starts_with('=') {
            return Err(format!("a job type is an expression: {}", attribute.value));
        }
        let value = format!("{prefix}{}", attribute.value);
        changed.push_attribute(Attribute { key: attribute.key, value: value.into() });
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use crate::{EXECUTABLE, model};
    use m87_core::lane::JobType;

    fn read(text: &str) -> model::Definitions {
        model::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_prefix_is_on_the_process_and_on_each_job_type_and_nowhere_else() {
        let with = prefixed(EXECUTABLE, "blue-").unwrap();
        let mut expected = EXECUTABLE.replace("id=\"m87-governed-loop\"", "id=\"blue-m87-governed-loop\"");
        expected = expected.replace("processRef=\"m87-governed-loop\"", "processRef=\"blue-m87-governed-loop\"");
        for job in JobType::ALL {
            let (bare, blue) = (format!("type=\"{}\"", job.name()), format!("type=\"blue-{}\"", job.name()));
            assert!(expected.contains(&bare), "{job:?}");
            expected = expected.replace(&bare, &blue);
        }
        assert_eq!(read(&with), read(&expected));
    }

    #[test]
    fn without_a_prefix_a_process_means_what_it_meant() {
        let same = prefixed(EXECUTABLE, "").unwrap();
        assert_eq!(read(&same), read(EXECUTABLE));
    }

    #[test]
    fn text_and_escapes_survive() {
        let bpmn = r#"<?xml version="1.0"?><b:definitions xmlns:b="http://www.omg.org/spec/BPMN/20100524/MODEL" xmlns:z="http://camunda.org/schema/zeebe/1.0"><!-- a & b --><b:process id="p" name="&lt;&quot;&#10;"><z:taskDefinition z:type="x" type="y"/>&amp; é</b:process></b:definitions>"#;
        let expected = bpmn.replace("id=\"p\"", "id=\"a-p\"").replace(" type=\"y\"", " type=\"a-y\"");
        assert_eq!(prefixed(bpmn, "a-").unwrap(), expected);
    }

    #[test]
    fn what_is_no_xml_or_computes_its_job_type_is_refused() {
        let computed = EXECUTABLE.replace("type=\"execute\"", "type=\"=tool\"");
        for bpmn in ["<a", "<a></b>", computed.as_str()] {
            assert!(prefixed(bpmn, "blue-").is_err(), "{bpmn:.20}");
        }
    }
}
