#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
use super::*;
use m87_zeebe::secure::{H2, incoming};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

fn at(days: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000).plus_millis(days * DAY)
}

fn names() -> Vec<String> {
    service_names("m87-system")
}

/// What happens, day by day, to what is made on the first day.
fn life(days: i64) -> Vec<(i64, Due)> {
    let mut state = State::make(at(0), &names()).unwrap();
    let mut happened = Vec::new();
    for day in 0..=days {
        while let Some(next) = state.after(at(day), &names()).unwrap() {
            happened.push((day, decide(at(day), &state.facts(&names()))));
            state = next;
        }
        assert!(state.leaf.validity.holds(at(day)), "day {day}");
        assert!(state.signing.validity.holds(at(day)), "day {day}");
    }
    happened
}

#[test]
fn a_leaf_is_replaced_at_two_thirds_of_its_life_and_an_authority_overlaps_with_the_next() {
    let happened = life(760);
    let leaves: Vec<i64> = happened.iter().filter(|(_, due)| *due == Due::Leaf).map(|(day, _)| *day).take(3).collect();
    assert_eq!(leaves, [60, 120, 180]);
    let authorities: Vec<_> = happened.into_iter().filter(|(_, due)| *due != Due::Leaf).collect();
    assert_eq!(authorities, [(730, Due::Announcement), (737, Due::Succession), (744, Due::Farewell)]);
}

#[test]
fn what_is_not_valid_is_made_anew_whatever_the_clock_says() {
    let state = State::make(at(0), &names()).unwrap();
    assert_eq!(decide(at(0), &state.facts(&names())), Due::Nothing);
    // Long switched off, and a clock that was in the future when it was made.
    assert_eq!(decide(at(2000), &state.facts(&names())), Due::Everything);
    assert_eq!(decide(at(-1), &state.facts(&names())), Due::Everything);
    assert_eq!(decide(at(100), &state.facts(&names())), Due::Leaf);
    let more = [names(), vec!["another".to_owned()]].concat();
    assert_eq!(decide(at(0), &state.facts(&more)), Due::Leaf);
}

#[test]
fn a_whole_state_survives_its_secret_and_a_damaged_one_is_told_how_to_mend() {
    let state = State::make(at(0), &names()).unwrap();
    let mut secret = write(None, &state, "m87-system").unwrap();
    assert!(read(&secret, "m87-system").unwrap() == state);
    secret.data.as_mut().unwrap().insert(STATE.to_owned(), ByteString(b"{".to_vec()));
    let error = read(&secret, "m87-system").err().unwrap().to_string();
    assert!(error.contains("Secret m87-system/m87-tls") && error.contains("delete the Secret"), "{error}");
}

/// Connects to a running server, believing that bundle, under that name.
async fn connects(address: std::net::SocketAddr, bundle: &str, name: &str) -> bool {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = TcpStream::connect(address).await.unwrap();
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(name.to_owned()).unwrap(), tcp).await.is_ok()
}

fn today() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap())
}

#[tokio::test]
async fn a_running_server_takes_the_successors_leaf_and_both_bundles_of_the_overlap_believe_it() {
    let now = today();
    let first = State::make(now, &names()).unwrap();
    let leaf = Leaf::new(first.leaf.certificate_pem.as_bytes(), first.leaf.key_pem.as_bytes()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let _connections = incoming(listener, leaf.server(&[H2]).unwrap());
    for name in names() {
        assert!(connects(address, &first.bundle(), &name).await, "{name}");
    }
    assert!(!connects(address, &first.bundle(), "m87.another.svc").await);

    let announced = State { next: Some((now, make_ca(now).unwrap())), ..first.clone() };
    let next = announced.next.clone().unwrap().1;
    let successor = State {
        leaf: make_leaf(now, &next, &names()).unwrap(),
        last: Some((now, first.signing.certificate_pem.clone())),
        signing: next,
        next: None,
        ..announced.clone()
    };
    leaf.replace(successor.leaf.certificate_pem.as_bytes(), successor.leaf.key_pem.as_bytes()).unwrap();
    assert!(connects(address, &announced.bundle(), "m87").await);
    assert!(connects(address, &successor.bundle(), "m87").await);
    assert!(!connects(address, &first.bundle(), "m87").await, "only who heard the announcement");
}
