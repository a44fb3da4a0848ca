//! What `/metrics` shows. Labels are names of closed sets, so that the number of series does not grow with what people make.

use crate::lanes::Report;
use m87_core::lane::Lane;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::sync::{Mutex, PoisonError};

type Names<const N: usize> = [(&'static str, &'static str); N];
type Seconds = Family<Names<1>, Histogram, fn() -> Histogram>;

/// Upper bounds of the durations of runs, in seconds.
const DURATIONS: [f64; 11] = [0.05, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3600.0];

fn durations() -> Histogram {
    Histogram::new(DURATIONS)
}

/// Every figure.
pub struct Metrics {
    registry: Mutex<Registry>,
    opened: Counter,
    sealed: Family<Names<2>, Counter>,
    duration: Seconds,
    writes: Family<Names<2>, Counter>,
    failures: Family<Names<1>, Counter>,
    unreadable: Family<Names<1>, Counter>,
    events: Family<Names<1>, Counter>,
    open: Gauge,
    depth: Gauge,
    objects: Family<Names<1>, Gauge>,
    heartbeat: Family<Names<1>, Gauge>,
    leader: Gauge,
    lane_wanted: Family<Names<1>, Gauge>,
    lane_ready: Family<Names<1>, Gauge>,
    lane_waiting: Family<Names<1>, Gauge>,
    unpublished: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("m87");
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "Which m87 this is", build);
        let metrics = Self {
            registry: Mutex::default(),
            opened: Counter::default(),
            sealed: Family::default(),
            duration: Family::new_with_constructor(durations as fn() -> Histogram),
            writes: Family::default(),
            failures: Family::default(),
            unreadable: Family::default(),
            events: Family::default(),
            open: Gauge::default(),
            depth: Gauge::default(),
            objects: Family::default(),
            heartbeat: Family::default(),
            leader: Gauge::default(),
            lane_wanted: Family::default(),
            lane_ready: Family::default(),
            lane_waiting: Family::default(),
            unpublished: Gauge::default(),
        };
        registry.register("runs_opened", "Runs that were opened", metrics.opened.clone());
        registry.register("runs_sealed", "Runs that got their receipt, by terminal and reason", metrics.sealed.clone());
        registry.register("run_duration_seconds", "From a run's opening to its receipt", metrics.duration.clone());
        registry.register("api_writes", "Writes to the API server", metrics.writes.clone());
        registry.register("reconcile_failures", "Reconciles that have to be repeated", metrics.failures.clone());
        registry.register("objects_unreadable", "Objects whose spec could not be read", metrics.unreadable.clone());
        registry.register("events", "Events, by what became of them", metrics.events.clone());
        registry.register("runs_open", "Runs that are open now", metrics.open.clone());
        registry.register("queue_depth", "What waits to be reconciled now", metrics.depth.clone());
        registry.register("objects", "Objects that are known now", metrics.objects.clone());
        registry.register("watch_age_seconds", "Since the last sign of life of a watch", metrics.heartbeat.clone());
        registry.register("leader", "1 while this process leads", metrics.leader.clone());
        registry.register("lane_pods_wanted", "Pods that a lane should have", metrics.lane_wanted.clone());
        registry.register("lane_pods_ready", "Pods of a lane that do jobs", metrics.lane_ready.clone());
        registry.register("lane_jobs_waiting", "Jobs that wait for a lane", metrics.lane_waiting.clone());
        let unpublished = metrics.unpublished.clone();
        registry.register(
            "checkpoints_unpublished",
            "Namespaces whose checkpoint could not be published yet",
            unpublished,
        );
        Self { registry: Mutex::new(registry), ..metrics }
    }
}

impl Metrics {
    /// A run was opened.
    pub fn opened(&self) {
        self.opened.inc();
    }

    /// A run got its receipt, so many seconds after it was opened.
    pub fn sealed(&self, terminal: &'static str, reason: &'static str, seconds: f64) {
        self.sealed.get_or_create(&[("terminal", terminal), ("reason", reason)]).inc();
        self.duration.get_or_create(&[("terminal", terminal)]).observe(seconds);
    }

    /// Something is written to the API server.
    pub fn wrote(&self, kind: &'static str, verb: &'static str) {
        self.writes.get_or_create(&[("kind", kind), ("verb", verb)]).inc();
    }

    /// A reconcile has to be repeated.
    pub fn failed(&self, kind: &'static str) {
        self.failures.get_or_create(&[("kind", kind)]).inc();
    }

    /// An object's spec could not be read.
    pub fn unreadable(&self, kind: &'static str) {
        self.unreadable.get_or_create(&[("kind", kind)]).inc();
    }

    /// What became of an event: `recorded`, `failed` or `dropped`.
    pub fn event(&self, outcome: &'static str) {
        self.events.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// Runs that are open now, and what waits to be reconciled.
    pub fn load(&self, open: usize, depth: usize) {
        self.open.set(i64::try_from(open).unwrap_or(i64::MAX));
        self.depth.set(i64::try_from(depth).unwrap_or(i64::MAX));
    }

    /// What is known of a kind, and since when.
    pub fn watch(&self, kind: &'static str, objects: usize, age_seconds: u64) {
        self.objects.get_or_create(&[("kind", kind)]).set(i64::try_from(objects).unwrap_or(i64::MAX));
        self.heartbeat.get_or_create(&[("kind", kind)]).set(i64::try_from(age_seconds).unwrap_or(i64::MAX));
    }

    /// Whether this process leads.
    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// How a lane is.
    pub fn lane(&self, lane: Lane, report: &Report) {
        let label = [("lane", lane.name())];
        self.lane_wanted.get_or_create(&label).set(i64::from(report.wanted));
        self.lane_ready.get_or_create(&label).set(i64::from(report.ready));
        // A real Zeebe does not say what waits: no figure, rather than a zero that is none.
        if let Some(waiting) = report.waiting {
            self.lane_waiting.get_or_create(&label).set(i64::try_from(waiting).unwrap_or(i64::MAX));
        }
    }

    /// Of how many namespaces the checkpoint could not be published yet.
    pub fn unpublished(&self, namespaces: usize) {
        self.unpublished.set(i64::try_from(namespaces).unwrap_or(i64::MAX));
    }

    /// More figures, of another part of the program.
    pub fn with(&self, register: impl FnOnce(&mut Registry)) {
        register(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The text for Prometheus.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry.lock().unwrap_or_else(PoisonError::into_inner));
        text
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use m87_core::reason::Reason;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn the_number_of_series_does_not_grow_with_runs() {
        let metrics = Metrics::default();
        let fill = |rounds: usize| {
            for round in 0..rounds {
                let reason = Reason::ALL.get(round % Reason::ALL.len()).map_or("None", |reason| reason.name());
                metrics.opened();
                metrics.sealed("HALT", reason, 0.2);
                metrics.wrote("GovernedRun", "status");
            }
            metrics.text().lines().count()
        };
        assert_eq!(fill(1_000), fill(10_000));
    }

    #[test]
    fn what_happened_is_counted() {
        let metrics = Metrics::default();
        metrics.sealed("COMPLETE", "None", 0.2);
        metrics.load(3, 1);
        let text = metrics.text();
        for line in [
            r#"m87_runs_sealed_total{terminal="COMPLETE",reason="None"} 1"#,
            "m87_runs_open 3",
            r#"m87_run_duration_seconds_bucket{le="0.3",terminal="COMPLETE"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(text.contains("m87_build_info{version="), "{text}");
    }

    #[test]
    fn a_lane_has_its_figures_and_no_backlog_where_nobody_knows_it() {
        let metrics = Metrics::default();
        metrics.lane(Lane::Runner, &Report { wanted: 3, ready: 2, waiting: Some(7), error: None });
        metrics.lane(Lane::Memory, &Report { wanted: 1, ready: 1, waiting: None, error: None });
        let text = metrics.text();
        for line in [
            r#"m87_lane_pods_wanted{lane="runner"} 3"#,
            r#"m87_lane_pods_ready{lane="runner"} 2"#,
            r#"m87_lane_jobs_waiting{lane="runner"} 7"#,
            r#"m87_lane_pods_ready{lane="memory"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(!text.contains(r#"m87_lane_jobs_waiting{lane="memory"}"#), "{text}");
    }

    /// What a query can name: counters end in `_total`, the info in `_info`. What nothing was said of yet is not in the text.
    fn exported() -> BTreeSet<String> {
        let metrics = Metrics::default();
        metrics.opened();
        metrics.sealed("COMPLETE", "None", 0.2);
        metrics.wrote("GovernedRun", "status");
        metrics.failed("GovernedRun");
        metrics.unreadable("GovernedRun");
        metrics.event("recorded");
        metrics.load(0, 0);
        metrics.watch("GovernedRun", 0, 0);
        metrics.leads(true);
        metrics.lane(Lane::Runner, &Report { waiting: Some(0), ..Report::default() });
        let text = metrics.text();
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let name = |(name, kind): (&str, &str)| match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        };
        types.map(name).collect()
    }

    /// Every word of a file of this repository that begins with `m87_`.
    fn named_in(file: &str) -> BTreeSet<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
        let text = std::fs::read_to_string(path).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|word| word.starts_with("m87_")).map(str::to_owned).collect()
    }

    #[test]
    fn an_alert_names_only_what_is_exported() {
        let (named, exported) = (named_in("charts/m87/templates/monitoring.yaml"), exported());
        assert!(!named.is_empty());
        assert_eq!(named.difference(&exported).collect::<Vec<_>>(), Vec::<&String>::new(), "of {exported:?}");
    }

    #[test]
    fn the_documented_metrics_are_those_that_are_exported() {
        assert_eq!(named_in("docs/operator.md"), exported());
    }
}
