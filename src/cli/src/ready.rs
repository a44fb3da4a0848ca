//! `m87 ready`: asks a `/readyz` until it is, for `helm test` and for scripts on images that hold nothing but m87.

use crate::args::ReadyArguments;
use crate::exit::Exit;
use crate::say::tell;
use anyhow::{Context, bail};
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long one question may take.
const ONE: Duration = Duration::from_secs(3);
/// Between two questions.
const PAUSE: Duration = Duration::from_millis(500);
/// No answer of ours is longer.
const LONGEST: u64 = 64 * 1024;

/// Asks until it is ready or the time is over.
pub(crate) fn run(arguments: &ReadyArguments) -> anyhow::Result<Exit> {
    let place = Place::parse(&arguments.url)?;
    let begun = Instant::now();
    loop {
        let why = match place.ask() {
            Ok((200, body)) => {
                tell!("{}", body.trim_end());
                return Ok(Exit::AsAsked);
            }
            Ok((status, body)) => format!("it answers {status}: {}", body.trim_end()),
            Err(error) => format!("{error:#}"),
        };
        if begun.elapsed() >= Duration::from_secs(arguments.timeout) {
            bail!("{} is not ready after {} s: {why}", arguments.url, arguments.timeout);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Where to ask.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    /// host:port.
    authority: String,
    path: String,
}

impl Place {
    fn parse(url: &str) -> anyhow::Result<Self> {
        let rest =
            url.strip_prefix("http://").with_context(|| format!("{url}: only http://HOST[:PORT]/PATH is asked"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.is_empty() || url.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
            bail!("{url}: write http://HOST[:PORT]/PATH");
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let authority = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        Ok(Self { authority, path: format!("/{path}") })
    }

    /// The status and the body of the answer.
    fn ask(&self) -> anyhow::Result<(u16, String)> {
        let mut addresses = self.authority.to_socket_addrs().with_context(|| self.authority.clone())?;
        let address = addresses.next().with_context(|| format!("{} has no address", self.authority))?;
        let mut stream = TcpStream::connect_timeout(&address, ONE).with_context(|| self.authority.clone())?;
        stream.set_read_timeout(Some(ONE))?;
        stream.set_write_timeout(Some(ONE))?;
        // In one piece: a server may answer and hang up after the first one.
        stream.write_all(format!("GET {} HTTP/1.0\r\nHost: {}\r\n\r\n", self.path, self.authority).as_bytes())?;
        let mut answer = Vec::new();
        stream.take(LONGEST).read_to_end(&mut answer)?;
        parse(&String::from_utf8_lossy(&answer)).with_context(|| format!("{} does not speak HTTP", self.authority))
    }
}

fn parse(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use std::net::TcpListener;

    /// Answers one question after the other, each with the next of these.
    fn server(answers: &'static [&'static str]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut question = [0; 512];
                let length = stream.read(&mut question).unwrap();
                assert!(question[..length].starts_with(b"GET /readyz HTTP/1.0\r\n"));
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        format!("http://{address}/readyz")
    }

    fn asked(url: String, timeout: u64) -> Result<Exit, String> {
        run(&ReadyArguments { url, timeout }).map_err(|error| error.to_string())
    }

    #[test]
    fn it_waits_until_it_is_ready() {
        let url = server(&["HTTP/1.1 503 Service Unavailable\r\n\r\nwaiting", "HTTP/1.1 200 OK\r\n\r\nok"]);
        assert_eq!(asked(url, 10), Ok(Exit::AsAsked));
    }

    #[test]
    fn whoever_is_not_ready_in_time_says_why() {
        let error = asked(server(&["HTTP/1.1 503 Service Unavailable\r\n\r\nadmission: absent\n"]), 0).unwrap_err();
        assert!(error.ends_with("it answers 503: admission: absent"), "{error}");
        let error = asked(server(&["SSH-2.0-x"]), 0).unwrap_err();
        assert!(error.contains("does not speak HTTP"), "{error}");
    }

    #[test]
    fn only_a_plain_address_is_asked() {
        let place = |url: &str| Place::parse(url).ok().map(|place| (place.authority, place.path));
        assert_eq!(place("http://m87.ns.svc:8080/readyz"), Some(("m87.ns.svc:8080".to_owned(), "/readyz".to_owned())));
        assert_eq!(place("http://m87"), Some(("m87:80".to_owned(), "/".to_owned())));
        for url in ["https://m87/readyz", "m87:8080", "http:///readyz", "http://m87/a b", "http://m87/\r\nX: y"] {
            assert_eq!(place(url), None, "{url}");
        }
    }
}
