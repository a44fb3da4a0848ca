//! Three processes, one lease, and everything that goes wrong between them: calls that arrive late, answers that are lost,
//! conflicts, refusals, clocks that are minutes apart and run at different speeds, pauses, crashes, a deleted lease. Never do
//! two lead at one time, and no epoch comes twice.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
use super::LeaseEpoch;
use super::decide::{Before, Config, Decision, Identity, Knowledge, Monotonic, Record, decide};
use m87_authority::world::Epoch;
use std::time::Duration;

/// One step of the world, in milliseconds.
const TICK: u64 = 100;
/// No call is waited for longer.
const LIMIT: u64 = 5_000;
const CONFIG: Config = Config::usual(Before::Somebody);

/// xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

/// A call on its way.
#[derive(Clone)]
struct Call {
    process: usize,
    start: u64,
    sent: Monotonic,
    decision: Decision,
    arrives: u64,
    /// When the answer is there; `None` if it is lost.
    answers: Option<u64>,
    answer: Option<Answer>,
}

#[derive(Clone)]
enum Answer {
    Read(Option<Record>),
    Created(Record),
    Wrote(Record),
    Conflict,
    Forbidden,
}

struct Process {
    knowledge: Knowledge,
    start: u64,
    /// Its clock: so much apart from the world's, and so fast in parts per thousand.
    offset: u64,
    speed: u64,
    /// Does nothing before.
    asleep_until: u64,
    /// Waits for the answer of its call since.
    calling_since: Option<u64>,
    led_with: Option<i64>,
}

struct World {
    config: Config,
    random: Random,
    now: u64,
    lease: Option<Record>,
    versions: u64,
    calls: Vec<Call>,
    processes: Vec<Process>,
    /// The last epoch that the store knows.
    epoch: i64,
    calm: bool,
    leaderships: u64,
}

fn identity(process: usize, start: u64) -> Identity {
    Identity { place: format!("m87-{process}/uid"), start: start.to_string() }
}

impl Process {
    fn clock(&self, world: u64) -> Monotonic {
        Monotonic(Duration::from_millis(self.offset + world * self.speed / 1000))
    }
}

impl World {
    fn new(seed: u64, config: Config) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let processes = (0..3).map(|process| Process {
            knowledge: Knowledge::new(identity(process, 0)),
            start: 0,
            // Up to 20 minutes from each other.
            offset: random.below(1_200_000),
            speed: 950 + random.below(101),
            asleep_until: 0,
            calling_since: None,
            led_with: None,
        });
        let processes = processes.collect();
        Self {
            config,
            random,
            now: 0,
            lease: None,
            versions: 0,
            calls: vec![],
            processes,
            epoch: 0,
            calm: false,
            leaderships: 0,
        }
    }

    fn step(&mut self) {
        self.now += TICK;
        if !self.calm {
            self.misfortune();
        }
        self.serve();
        for process in 0..self.processes.len() {
            self.answer(process);
            self.act(process);
        }
        self.check();
    }

    fn misfortune(&mut self) {
        if self.random.one_in(600) {
            let process = usize::try_from(self.random.below(3)).unwrap();
            self.processes[process].asleep_until = self.now + self.random.below(40_000);
        }
        if self.random.one_in(400) {
            // Dies, with its calls still on their way; another takes its place.
            let index = usize::try_from(self.random.below(3)).unwrap();
            let process = &mut self.processes[index];
            process.start += 1;
            process.knowledge = Knowledge::new(identity(index, process.start));
            (process.calling_since, process.led_with) = (None, None);
        }
        if self.random.one_in(400) {
            let process = usize::try_from(self.random.below(3)).unwrap();
            self.processes[process].knowledge.stop();
        }
        if self.random.one_in(1000) {
            self.lease = None;
        }
    }

    /// What arrives is done, whether or not somebody still waits for it.
    fn serve(&mut self) {
        for at in 0..self.calls.len() {
            if self.calls[at].answer.is_none() && self.calls[at].arrives <= self.now {
                let (process, start, decision) = {
                    let call = &self.calls[at];
                    (call.process, call.start, call.decision.clone())
                };
                let answer = if !self.calm && self.random.one_in(25) {
                    Answer::Forbidden
                } else {
                    self.serve_one(&identity(process, start).name(), &decision)
                };
                self.calls[at].answer = Some(answer);
            }
        }
        let now = self.now;
        self.calls.retain(|call| call.answer.is_none() || call.answers.is_some_and(|at| at + LIMIT >= now));
    }

    fn serve_one(&mut self, holder: &str, decision: &Decision) -> Answer {
        let (replaced, holder, transitions) = match decision {
            Decision::Look => return Answer::Read(self.lease.clone()),
            Decision::Create => (None, Some(holder), self.config.transitions_when_created()),
            Decision::Acquire(record) => (Some(record), Some(holder), record.transitions + 1),
            Decision::Renew(record) => (Some(record), Some(holder), record.transitions),
            Decision::Release(record) => (Some(record), None, record.transitions),
            Decision::Wait(_) | Decision::Lost(_) => panic!("{decision:?} is no call"),
        };
        if self.lease.as_ref().map(|lease| &lease.version) != replaced.map(|record| &record.version) {
            return Answer::Conflict;
        }
        self.versions += 1;
        let record = Record {
            version: self.versions.to_string(),
            holder: holder.map(str::to_owned),
            duration: self.config.duration,
            transitions,
        };
        self.lease = Some(record.clone());
        if replaced.is_none() { Answer::Created(record) } else { Answer::Wrote(record) }
    }

    fn answer(&mut self, index: usize) {
        let now = self.now;
        let process = &mut self.processes[index];
        let Some(since) = process.calling_since.filter(|_| process.asleep_until <= now) else { return };
        let came = process.clock(now);
        let own = |call: &Call| call.process == index && call.start == process.start;
        let call = self.calls.iter().find(|call| own(call) && call.answers.is_some_and(|at| at <= now)).cloned();
        match call.and_then(|call| call.answer.map(|answer| (call.sent, answer))) {
            Some((sent, answer)) => {
                match answer {
                    Answer::Read(record) => process.knowledge.saw(record, came),
                    Answer::Created(record) => process.knowledge.created(record, sent, came, &self.config),
                    Answer::Wrote(record) => process.knowledge.wrote(record, sent, came),
                    Answer::Conflict | Answer::Forbidden => process.knowledge.must_look(),
                }
                process.calling_since = None;
                // It is answered once; what it does at the server may be still to come only if nothing was answered.
                let start = process.start;
                self.calls.retain(|call| !(call.process == index && call.start == start && call.answer.is_some()));
            }
            None if since + LIMIT < now => {
                process.knowledge.must_look();
                process.calling_since = None;
                // Nobody waits for it any more; it may arrive all the same.
                let start = process.start;
                let own = |call: &&mut Call| call.process == index && call.start == start;
                self.calls.iter_mut().filter(own).for_each(|call| call.answers = None);
            }
            None => {}
        }
    }

    fn act(&mut self, index: usize) {
        let now = self.now;
        let process = &mut self.processes[index];
        if process.asleep_until > now || process.calling_since.is_some() {
            return;
        }
        let clock = process.clock(now);
        let decision = decide(&process.knowledge, clock, &self.config);
        let decision = match decision {
            Decision::Lost(_) => {
                // The process ends; the next one begins.
                process.start += 1;
                process.knowledge = Knowledge::new(identity(index, process.start));
                process.led_with = None;
                return;
            }
            // Only a leader waits without looking.
            Decision::Wait(_) if process.knowledge.leads_until(&self.config).is_some() => return,
            Decision::Wait(_) => Decision::Look,
            other => other,
        };
        let slow = if self.calm { 300 } else { 6_000 };
        let way = if !self.calm && self.random.one_in(6) { 20_000 } else { 300 };
        let arrives = now + self.random.below(way);
        let lost = !self.calm && self.random.one_in(8);
        let answers = (!lost).then(|| arrives + self.random.below(slow));
        process.calling_since = Some(now);
        let start = process.start;
        self.calls.push(Call { process: index, start, sent: clock, decision, arrives, answers, answer: None });
    }

    fn check(&mut self) {
        let now = self.now;
        let leads = |process: &Process| {
            process.knowledge.leads_until(&self.config).is_some_and(|until| process.clock(now) < until)
        };
        // Also those that sleep: they could be just about to write.
        let leading: Vec<usize> = (0..3).filter(|index| leads(&self.processes[*index])).collect();
        assert!(leading.len() <= 1, "at {now} ms {leading:?} lead at one time");
        for index in leading {
            let process = &mut self.processes[index];
            if let (None, Some(transitions)) = (process.led_with, process.knowledge.transitions()) {
                let epoch = LeaseEpoch { transitions }.epoch(self.epoch);
                assert!(epoch > self.epoch, "epoch {epoch} comes twice");
                (self.epoch, process.led_with) = (epoch, Some(epoch));
                self.leaderships += 1;
            }
        }
    }

    fn leader(&self) -> Option<usize> {
        let leads = |process: &Process| {
            process.knowledge.leads_until(&self.config).is_some_and(|until| process.clock(self.now) < until)
        };
        self.processes.iter().position(leads)
    }
}

fn play(seed: u64) -> u64 {
    let mut world = World::new(seed, CONFIG);
    for _ in 0..6_000 {
        world.step();
    }
    world.calm = true;
    // The longest pause, and what is still on its way; then a whole duration for the slowest clock.
    for _ in 0..1_200 {
        world.step();
    }
    assert!(world.leader().is_some(), "seed {seed}: nobody leads after all has become calm");
    world.leaderships
}

#[test]
fn never_do_two_lead_and_no_epoch_comes_twice_whatever_goes_wrong() {
    let mut leaderships = 0;
    for seed in 1..=120 {
        let played = std::panic::catch_unwind(|| play(seed));
        match played {
            Ok(count) => leaderships += count,
            Err(error) => {
                eprintln!("seed {seed}: repeat it with play({seed})");
                std::panic::resume_unwind(error);
            }
        }
    }
    // The world must be one in which the lead changes.
    assert!(leaderships > 120 * 3, "{leaderships}");
}

/// Leaders that trust their lease for longer than others wait for it.
#[test]
fn the_model_sees_two_leaders_where_there_are_two() {
    let careless = Config { renew_deadline: Duration::from_secs(30), ..CONFIG };
    let caught = std::panic::catch_unwind(|| {
        for seed in 1..=300 {
            let mut world = World::new(seed, careless);
            (0..6_000).for_each(|_| world.step());
        }
    });
    let message = caught.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("lead at one time"), "{message}");
}
