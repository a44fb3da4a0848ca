//! What the API server has of one kind, as far as the reconcilers need it. Plain and synchronous; written by a watch, read by
//! everybody. Facts about runs never come from here: it says what is asked for, not what has happened.

use crate::world::names::BASELINE;
use kube::api::DynamicObject;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An object's place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// The key of an object.
    pub fn of(object: &DynamicObject) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self { namespace: text(&object.metadata.namespace), name: text(&object.metadata.name) }
    }

    /// The policy that is intersected into every plan, in the operator's own namespace.
    pub fn baseline(own_namespace: &str) -> Self {
        Self { namespace: own_namespace.to_owned(), name: BASELINE.to_owned() }
    }

    /// Another object of the same namespace.
    pub fn beside(&self, name: &str) -> Self {
        Self { namespace: self.namespace.clone(), name: name.to_owned() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What is kept of an object.
pub trait View: Send + Sync + 'static {
    /// Reads an object; what cannot be read is part of the view.
    fn of(object: DynamicObject) -> Self;
    /// Its place.
    fn key(&self) -> &Key;
    /// Its uid.
    fn uid(&self) -> &str;
    /// The version of it that was seen.
    fn resource_version(&self) -> &str;
}

/// The objects of one kind.
pub struct Index<V> {
    objects: Mutex<HashMap<Key, Arc<V>>>,
    synced: AtomicBool,
}

impl<V> Default for Index<V> {
    fn default() -> Self {
        Self { objects: Mutex::default(), synced: AtomicBool::new(false) }
    }
}

impl<V: View> Index<V> {
    /// The object there.
    pub fn get(&self, key: &Key) -> Option<Arc<V>> {
        self.objects().get(key).cloned()
    }

    /// Takes in a version of an object; false if a later one is known already, as after a write.
    pub fn apply(&self, view: V) -> bool {
        let mut objects = self.objects();
        if let Some(known) = objects.get(view.key())
            && known.uid() == view.uid()
            && is_older(view.resource_version(), known.resource_version())
        {
            return false;
        }
        objects.insert(view.key().clone(), Arc::new(view));
        true
    }

    /// Lets go of an object, unless another has its place by now.
    pub fn remove(&self, key: &Key, uid: &str) {
        let mut objects = self.objects();
        if objects.get(key).is_some_and(|known| known.uid() == uid) {
            objects.remove(key);
        }
    }

    /// Lets go of everything that a full list did not have; answers what that was.
    pub fn retain(&self, listed: &HashMap<Key, String>) -> Vec<(Key, String)> {
        let mut objects = self.objects();
        let is_gone = |(key, view): (&Key, &Arc<V>)| {
            (listed.get(key).map(String::as_str) != Some(view.uid())).then(|| (key.clone(), view.uid().to_owned()))
        };
        let gone: Vec<_> = objects.iter().filter_map(is_gone).collect();
        gone.iter().for_each(|(key, _)| drop(objects.remove(key)));
        gone
    }

    /// Every object's place.
    pub fn keys(&self) -> Vec<Key> {
        self.objects().keys().cloned().collect()
    }

    /// Places of the objects of which this holds.
    pub fn matching(&self, holds: impl Fn(&V) -> bool) -> Vec<Key> {
        self.objects().iter().filter(|(_, view)| holds(view)).map(|(key, _)| key.clone()).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.objects().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects().is_empty()
    }

    /// Whether a full list was seen.
    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::SeqCst)
    }

    /// A full list was seen.
    pub fn set_synced(&self) {
        self.synced.store(true, Ordering::SeqCst);
    }

    fn objects(&self) -> MutexGuard<'_, HashMap<Key, Arc<V>>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Versions of one server can be compared where they are numbers; where not, whatever comes later is taken.
fn is_older(one: &str, other: &str) -> bool {
    match (one.parse::<u128>(), other.parse::<u128>()) {
        (Ok(one), Ok(other)) => one < other,
        (Err(_), _) | (_, Err(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    struct Small(Key, &'static str, &'static str);

    impl View for Small {
        fn of(object: DynamicObject) -> Self {
            Self(Key::of(&object), "", "")
        }
        fn key(&self) -> &Key {
            &self.0
        }
        fn uid(&self) -> &str {
            self.1
        }
        fn resource_version(&self) -> &str {
            self.2
        }
    }

    fn key(name: &str) -> Key {
        Key { namespace: "ns".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn a_stale_event_does_not_replace_what_was_written_after_it() {
        let index = Index::default();
        assert!(index.apply(Small(key("a"), "u1", "9")));
        assert!(!index.apply(Small(key("a"), "u1", "8")));
        assert!(index.apply(Small(key("a"), "u1", "10")));
        assert_eq!(index.get(&key("a")).unwrap().2, "10");
        assert!(index.apply(Small(key("a"), "u2", "3")), "another object under the same name is not an old version");
    }

    #[test]
    fn a_late_deletion_leaves_the_object_that_has_the_name_now() {
        let index = Index::default();
        index.apply(Small(key("a"), "new", "5"));
        index.remove(&key("a"), "old");
        assert!(index.get(&key("a")).is_some());
        index.remove(&key("a"), "new");
        assert!(index.get(&key("a")).is_none());
    }

    #[test]
    fn a_full_list_shows_what_is_gone_and_what_was_made_again() {
        let index = Index::default();
        for (name, uid) in [("kept", "1"), ("gone", "2"), ("remade", "3")] {
            index.apply(Small(key(name), uid, "1"));
        }
        let listed = HashMap::from([(key("kept"), "1".to_owned()), (key("remade"), "4".to_owned())]);
        let mut gone = index.retain(&listed);
        gone.sort();
        assert_eq!(gone, [(key("gone"), "2".to_owned()), (key("remade"), "3".to_owned())]);
        assert_eq!(index.len(), 1);
    }
}
