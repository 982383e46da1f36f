//! The events that a subscriber receives.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod support;

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use maple_tree::alloc::Global;
use maple_tree::{Fanout, MapleTree, SyncMapleTree, Waiting};
use support::Number;
use support::counting::Countdown;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Notes each event as a line.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            write!(self.0, " {value:?}").unwrap();
        } else {
            write!(self.0, " {}={value:?}", field.name()).unwrap();
        }
    }
}

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "maple_tree"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn events() {
    let notes = Notes::default();
    tracing::subscriber::with_default(notes.clone(), || {
        let nodes = Countdown::new();
        let mut map: MapleTree<u32, Number, &Countdown, Fanout<4>> = MapleTree::new_in(&nodes);
        map.insert(5, 1).unwrap();
        assert_eq!(notes.take(), ["DEBUG height from=0 to=1"]);
        map.insert(6, 2).unwrap();
        assert!(
            notes.take().is_empty(),
            "a change of one leaf is nothing to tell"
        );
        map.insert(7, 3).unwrap();
        let heard = notes.take();
        assert!(
            heard[0].contains("TRACE nodes kind=Split first=7 last=7 nodes="),
            "{heard:?}"
        );
        assert_eq!(heard[1], "DEBUG height from=1 to=2");
        for i in 8..30 {
            map.insert(i, i as Number).unwrap();
        }
        notes.take();
        nodes.allow(0);
        map.erase_range(7..20).unwrap_err();
        nodes.allow(usize::MAX);
        let heard = notes.take();
        assert!(
            heard[0].starts_with("DEBUG no memory wanted=") && heard.len() == 1,
            "{heard:?}"
        );
        map.erase_range(7..20).unwrap();
        let heard = notes.take();
        assert!(
            heard[0].contains("kind=Spanning first=7 last=19"),
            "{heard:?}"
        );
        nodes.allow(1);
        assert!(map.try_clone().is_err());
        nodes.allow(usize::MAX);
        assert!(notes.take().last().unwrap().ends_with("made=false"));
        let copy: MapleTree<u32, Number, Global, Fanout<4>> =
            MapleTree::try_from_sorted_in(map.iter(), Global).unwrap();
        assert!(notes.take()[0].starts_with("DEBUG built height="));
        let shared: SyncMapleTree<u32, Number, Waiting, Global, spin::Mutex<()>, Fanout<4>> =
            SyncMapleTree::from_exclusive(copy, Waiting::new());
        shared.write().try_clone_with(|_, v| Ok(Some(v))).unwrap();
        assert!(notes.take()[0].ends_with("made=true"));
    });
}
