//! What a lane tells people while it works: what it waits for, who refuses it, and that it works.
//!
//! A change is told at once; what stays wrong is told again once a minute; what is well is told once.

use std::collections::BTreeMap;
use std::time::Duration;

/// What stays wrong is told again after this.
const AGAIN: Duration = Duration::from_secs(60);

/// Whom a lane needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Party {
    /// Hands out jobs.
    Engine,
    /// Knows what a job is about.
    Authority,
}

impl Party {
    const ALL: [Self; 2] = [Self::Engine, Self::Authority];

    const fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Authority => "authority",
        }
    }
}

/// What was last heard of someone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Heard {
    /// It answered this lane.
    Answers,
    /// It gave no answer.
    Nothing(String),
    /// A definite no to this lane.
    Refuses(String),
}

/// How a lane stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneState {
    /// Not everyone was heard of yet.
    Starting,
    /// Someone gives no answer.
    Waits,
    /// Someone refuses this lane.
    Refused,
    /// It does its jobs.
    Works,
}

/// The story so far.
pub(super) struct Story {
    lane: &'static str,
    /// Where each party is, for people.
    places: [String; 2],
    heard: BTreeMap<(Party, String), Heard>,
    told: BTreeMap<Party, (LaneState, Duration)>,
    works: bool,
}

impl Story {
    pub(super) const fn new(lane: &'static str, engine: String, authority: String) -> Self {
        Self { lane, places: [engine, authority], heard: BTreeMap::new(), told: BTreeMap::new(), works: false }
    }

    /// Takes in what was heard of a party about one subject (for the engine a type of job); what to tell now.
    pub(super) fn hear(&mut self, party: Party, subject: &str, heard: Heard, now: Duration) -> Vec<String> {
        self.heard.insert((party, subject.to_owned()), heard);
        let mut lines: Vec<String> = self.wrong(party, now).into_iter().collect();
        let works = self.state() == LaneState::Works;
        if works && !self.works {
            lines.push(format!("lane {} works for {}", self.lane, self.place(Party::Engine)));
        }
        self.works = works;
        lines
    }

    /// How the lane stands.
    pub(super) fn state(&self) -> LaneState {
        let all = Party::ALL.map(|party| self.state_of(party));
        [LaneState::Refused, LaneState::Waits, LaneState::Starting]
            .into_iter()
            .find(|state| all.contains(state))
            .unwrap_or(LaneState::Works)
    }

    fn state_of(&self, party: Party) -> LaneState {
        match self.worst(party) {
            None => LaneState::Starting,
            Some(Heard::Answers) => LaneState::Works,
            Some(Heard::Nothing(_)) => LaneState::Waits,
            Some(Heard::Refuses(_)) => LaneState::Refused,
        }
    }

    fn worst(&self, party: Party) -> Option<&Heard> {
        self.heard.iter().filter(|((of, _), _)| *of == party).map(|(_, heard)| heard).max()
    }

    fn place(&self, party: Party) -> &str {
        let [engine, authority] = &self.places;
        match party {
            Party::Engine => engine,
            Party::Authority => authority,
        }
    }

    /// What is wrong with a party, if that is to be told now.
    fn wrong(&mut self, party: Party, now: Duration) -> Option<String> {
        let state = self.state_of(party);
        let due = match self.told.get(&party) {
            Some((told, at)) => *told != state || now.saturating_sub(*at) >= AGAIN,
            None => true,
        };
        let (lane, name, place) = (self.lane, party.name(), self.place(party));
        let line = match self.worst(party)? {
            Heard::Nothing(why) => format!("lane {lane}: waiting for the {name} at {place}: {why}"),
            Heard::Refuses(why) => format!(
                "lane {lane}: the {name} at {place} does not accept this lane: {why}; check that the token is that of lane \
                 {lane}. It is tried again until then"
            ),
            Heard::Answers => {
                self.told.insert(party, (state, now));
                return None;
            }
        };
        due.then(|| {
            self.told.insert(party, (state, now));
            line
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn story() -> Story {
        Story::new("runner", "e:1".to_owned(), "a:2".to_owned())
    }

    fn nothing() -> Heard {
        Heard::Nothing("refused connection".to_owned())
    }

    fn no() -> Heard {
        Heard::Refuses("no".to_owned())
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_lane_says_what_it_waits_for_at_once_and_then_once_a_minute() {
        let mut it = story();
        let told = it.hear(Party::Engine, "execute", nothing(), at(0));
        assert_eq!(told, ["lane runner: waiting for the engine at e:1: refused connection"]);
        for second in 1..60 {
            assert!(it.hear(Party::Engine, "execute", nothing(), at(second)).is_empty());
        }
        assert_eq!(it.hear(Party::Engine, "execute", nothing(), at(60)).len(), 1);
        assert_eq!(it.state(), LaneState::Waits);
    }

    #[test]
    fn a_definite_no_is_told_at_once_even_while_others_are_waited_for() {
        let mut it = story();
        it.hear(Party::Engine, "execute", nothing(), at(0));
        let told = it.hear(Party::Authority, "", no(), at(1));
        assert!(told[0].contains("the authority at a:2 does not accept this lane: no"), "{told:?}");
        assert_eq!(it.state(), LaneState::Refused);
        assert_eq!(it.hear(Party::Engine, "execute", no(), at(2)).len(), 1);
        assert!(it.hear(Party::Engine, "execute", no(), at(3)).is_empty());
    }

    #[test]
    fn a_lane_works_once_everyone_answers_for_every_job_and_says_so_once() {
        let mut it = story();
        it.hear(Party::Engine, "execute", Heard::Answers, at(0));
        assert_eq!(it.state(), LaneState::Starting);
        it.hear(Party::Engine, "emit-artifact", no(), at(0));
        assert!(it.hear(Party::Authority, "", Heard::Answers, at(1)).is_empty());
        assert_eq!(it.hear(Party::Engine, "emit-artifact", Heard::Answers, at(2)), ["lane runner works for e:1"]);
        assert!(it.hear(Party::Engine, "execute", Heard::Answers, at(3)).is_empty());
        assert_eq!(it.state(), LaneState::Works);
        assert_eq!(it.hear(Party::Engine, "execute", nothing(), at(4)).len(), 1);
        assert_eq!(it.hear(Party::Engine, "execute", Heard::Answers, at(5)), ["lane runner works for e:1"]);
    }
}
