//! HTTP/1.0 over a socket: as raw as a client can be.

use m87_api::Spec;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// What the API server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn taken(self, what: &str) -> Value {
        assert!(matches!(self.code, 200 | 201), "{what} is refused: {} {}", self.code, self.message());
        self.body
    }

    /// Refused as invalid, with these words.
    #[track_caller]
    pub(crate) fn refused(self, what: &str, words: &str) {
        assert!(matches!(self.code, 400 | 422), "{what} is taken: {} {}", self.code, self.body);
        assert!(self.message().contains(words), "{what}: {:?} is not in {:?}", words, self.message());
    }
}

/// How an object's unknown fields are met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fields {
    /// As kubectl, Helm and Argo CD ask for.
    Strict,
    /// As a client that says nothing gets it.
    Pruned,
}

pub(crate) fn send(method: &str, path: &str, body: &Value) -> Answer {
    let socket = std::env::var("M87_API_SOCKET").expect("M87_API_SOCKET; this test is started by tests/kube/crds");
    let mut stream = UnixStream::connect(socket).unwrap();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { code, body: serde_json::from_str(body).unwrap_or_else(|_| json!({"message": body})) }
}

fn collection<S: Spec>() -> String {
    format!("/apis/m87.dev/v1alpha1/namespaces/default/{}", S::PLURAL)
}

/// Asks for an object that is not kept.
pub(crate) fn try_to_create<S: Spec>(object: &Value, fields: Fields) -> Answer {
    let validation = match fields {
        Fields::Strict => "&fieldValidation=Strict",
        Fields::Pruned => "",
    };
    send("POST", &format!("{}?dryRun=All{validation}", collection::<S>()), object)
}

pub(crate) fn create<S: Spec>(object: &Value) -> Value {
    send("POST", &collection::<S>(), object).taken("a good object")
}

pub(crate) fn get<S: Spec>(name: &str) -> Value {
    send("GET", &format!("{}/{name}", collection::<S>()), &Value::Null).taken(name)
}

pub(crate) fn replace<S: Spec>(object: &Value) -> Answer {
    let name = object["metadata"]["name"].as_str().unwrap();
    send("PUT", &format!("{}/{name}", collection::<S>()), object)
}

pub(crate) fn replace_status<S: Spec>(object: &Value) -> Answer {
    let name = object["metadata"]["name"].as_str().unwrap();
    send("PUT", &format!("{}/{name}/status", collection::<S>()), object)
}

pub(crate) fn delete<S: Spec>(name: &str) {
    send("DELETE", &format!("{}/{name}", collection::<S>()), &Value::Null).taken(name);
}
