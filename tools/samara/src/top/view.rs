//! The state of the screen, and the effects of keys on it. Nothing here knows a terminal.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::columns::{Column, Order};
use super::sample::{Process, Sample};

/// The part that is open above or below the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    List,
    Help,
    /// Choosing a column to sort by: its place among them.
    Sorting(usize),
    /// A text to look for is typed.
    Searching,
    /// A text that names must have is typed.
    Filtering,
    /// All about one process: lines, and the first that is seen.
    Details(Vec<String>, usize),
}

/// A further action after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    Quit,
    /// All about this process.
    Details(i32),
}

/// The view of the list.
#[derive(Debug)]
pub(super) struct View {
    sample: Sample,
    pub(super) order: Order,
    pub(super) mode: Mode,
    pub(super) search: String,
    pub(super) filter: String,
    /// The process that is chosen. It stays so wherever sorting puts it.
    chosen: Option<i32>,
    /// Places in the sample of those that the filter lets through.
    shown: Vec<usize>,
    /// Place in `shown` of the chosen process.
    at: usize,
    /// Place in `shown` of the first one that is seen.
    first: usize,
    /// Lines that there are room for.
    pub(super) room: usize,
}

impl View {
    pub(super) fn new(order: Order) -> Self {
        Self {
            sample: Sample::default(),
            order,
            mode: Mode::List,
            search: String::new(),
            filter: String::new(),
            chosen: None,
            shown: Vec::new(),
            at: 0,
            first: 0,
            room: 1,
        }
    }

    /// Other figures.
    pub(super) fn refresh(&mut self, sample: Sample) {
        self.sample = sample;
        self.arrange();
    }

    pub(super) fn sample(&self) -> &Sample {
        &self.sample
    }

    /// Returns the processes that are in the list.
    pub(super) fn count(&self) -> usize {
        self.shown.len()
    }

    /// Returns the processes that are seen, and whether each is the chosen one.
    pub(super) fn seen(&self) -> impl Iterator<Item = (&Process, bool)> {
        let places = self.shown.iter().enumerate().skip(self.first);
        places.take(self.room).filter_map(|(place, &index)| {
            let process = self.sample.processes.get(index)?;
            Some((process, place == self.at))
        })
    }

    /// Sorts and filters again. Who was chosen stays so; if it is gone, the place is kept.
    fn arrange(&mut self) {
        self.order.sort(&mut self.sample);
        let processes = self.sample.processes.iter().enumerate();
        self.shown = processes
            .filter(|(_, process)| matches(process, &self.filter))
            .map(|(index, _)| index)
            .collect();
        let known = self.chosen.and_then(|pid| {
            let is = |&index: &usize| self.sample.processes[index].pid == pid;
            self.shown.iter().position(is)
        });
        self.choose(known.unwrap_or(self.at));
    }

    fn choose(&mut self, place: usize) {
        self.at = place.min(self.shown.len().saturating_sub(1));
        let process = self.shown.get(self.at).copied();
        self.chosen = process.map(|index| self.sample.processes[index].pid);
        self.scroll();
    }

    /// Keeps the chosen one in sight.
    fn scroll(&mut self) {
        let room = self.room.max(1);
        let last = self.shown.len().saturating_sub(room);
        self.first = self
            .first
            .min(self.at)
            .max((self.at + 1).saturating_sub(room));
        self.first = self.first.min(last.max(self.at.saturating_sub(room - 1)));
    }

    /// The room has changed.
    pub(super) fn resize(&mut self, room: usize) {
        self.room = room.max(1);
        self.scroll();
    }

    /// Chooses the next process with the searched text, from this place on and around.
    fn find(&mut self, from: usize) {
        let count = self.shown.len();
        let places = (from..count).chain(0..from.min(count));
        let found = places.into_iter().find(|&place| {
            let process = &self.sample.processes[self.shown[place]];
            matches(process, &self.search)
        });
        if let Some(found) = found
            && !self.search.is_empty()
        {
            self.choose(found);
        }
    }

    /// Handles a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> Wish {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Wish::Quit;
        }
        match self.mode {
            Mode::List => return self.press_list(key.code),
            Mode::Help => self.mode = Mode::List,
            Mode::Sorting(place) => self.press_sorting(key.code, place),
            Mode::Searching => self.press_searching(key.code),
            Mode::Filtering => self.press_filtering(key.code),
            Mode::Details(..) => self.press_details(key.code),
        }
        Wish::Nothing
    }

    fn press_list(&mut self, key: KeyCode) -> Wish {
        match key {
            KeyCode::Char('q') | KeyCode::F(10) => return Wish::Quit,
            KeyCode::F(1) | KeyCode::Char('h' | '?') => self.mode = Mode::Help,
            KeyCode::F(6) | KeyCode::Char('<' | '>' | ',' | '.') => {
                let place = Column::ALL.iter().position(|&c| c == self.order.column);
                self.mode = Mode::Sorting(place.unwrap_or(0));
            }
            KeyCode::F(3) | KeyCode::Char('/') => {
                self.search.clear();
                self.mode = Mode::Searching;
            }
            KeyCode::F(4) | KeyCode::Char('\\') => self.mode = Mode::Filtering,
            KeyCode::Char('I') => {
                self.order.descending = !self.order.descending;
                self.arrange();
            }
            KeyCode::Char('N') => self.sort_by(Column::Pid),
            KeyCode::Char('M') => self.sort_by(Column::Resident),
            KeyCode::Up => self.choose(self.at.saturating_sub(1)),
            KeyCode::Down => self.choose(self.at + 1),
            KeyCode::PageUp => self.choose(self.at.saturating_sub(self.room)),
            KeyCode::PageDown => self.choose(self.at + self.room),
            KeyCode::Home => self.choose(0),
            KeyCode::End => self.choose(usize::MAX),
            KeyCode::Enter => {
                if let Some(pid) = self.chosen {
                    return Wish::Details(pid);
                }
            }
            _ => {}
        }
        Wish::Nothing
    }

    fn sort_by(&mut self, column: Column) {
        self.order = Order::by(column);
        self.arrange();
    }

    fn press_sorting(&mut self, key: KeyCode, place: usize) {
        let last = Column::ALL.len() - 1;
        self.mode = match key {
            KeyCode::Up => Mode::Sorting(place.saturating_sub(1)),
            KeyCode::Down => Mode::Sorting((place + 1).min(last)),
            KeyCode::Home => Mode::Sorting(0),
            KeyCode::End => Mode::Sorting(last),
            KeyCode::Enter | KeyCode::F(6) => {
                self.sort_by(Column::ALL[place.min(last)]);
                Mode::List
            }
            KeyCode::Esc | KeyCode::Char('q') | KeyCode::F(10) => Mode::List,
            _ => Mode::Sorting(place),
        };
    }

    fn press_searching(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(c) => {
                self.search.push(c);
                self.find(self.at);
            }
            KeyCode::Backspace => {
                self.search.pop();
                self.find(self.at);
            }
            KeyCode::F(3) | KeyCode::Down => self.find(self.at + 1),
            KeyCode::Enter | KeyCode::Esc | KeyCode::F(10) => self.mode = Mode::List,
            _ => {}
        }
    }

    fn press_filtering(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(c) => self.filter.push(c),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Enter | KeyCode::F(10) => self.mode = Mode::List,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::List;
            }
            _ => {}
        }
        self.arrange();
    }

    fn press_details(&mut self, key: KeyCode) {
        let Mode::Details(lines, first) = &mut self.mode else {
            return;
        };
        let last = lines.len().saturating_sub(1);
        match key {
            KeyCode::Up => *first = first.saturating_sub(1),
            KeyCode::Down => *first = (*first + 1).min(last),
            KeyCode::PageUp => *first = first.saturating_sub(self.room),
            KeyCode::PageDown => *first = (*first + self.room).min(last),
            KeyCode::Home => *first = 0,
            KeyCode::End => *first = last,
            _ => self.mode = Mode::List,
        }
    }
}

/// Returns `true` if the name or the number contains this text.
fn matches(process: &Process, text: &str) -> bool {
    let name = || process.name.to_lowercase().contains(&text.to_lowercase());
    text.is_empty() || name() || process.pid.to_string() == text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::sample::{Sampler, tests::process};
    use super::*;

    fn press(view: &mut View, keys: &[KeyCode]) -> Wish {
        keys.iter().fold(Wish::Nothing, |_, &code| {
            view.press(KeyEvent::new(code, KeyModifiers::NONE))
        })
    }

    fn typed(view: &mut View, text: &str) {
        for c in text.chars() {
            press(view, &[KeyCode::Char(c)]);
        }
    }

    fn seen(view: &View) -> Vec<i32> {
        view.seen().map(|(process, _)| process.pid).collect()
    }

    fn chosen(view: &View) -> i32 {
        let mut chosen = view.seen().filter(|(_, chosen)| *chosen);
        let process = chosen.next().expect("the chosen process is seen").0;
        assert!(chosen.next().is_none());
        process.pid
    }

    fn sample(folder: &Path) -> Sample {
        Sampler::default().look(folder).unwrap()
    }

    /// Returns a thousand, of which those with larger numbers have more pages.
    fn many() -> (tempfile::TempDir, View) {
        let folder = tempfile::tempdir().unwrap();
        for pid in 1..=1000 {
            let name = if pid == 777 { "needle" } else { "hay" };
            process(folder.path(), pid, name, 4 * pid as u64);
        }
        let mut view = View::new(Order::by(Column::Fork));
        view.refresh(sample(folder.path()));
        view.resize(10);
        (folder, view)
    }

    #[test]
    fn arrows_move_and_the_chosen_one_stays_in_sight() {
        let (folder, mut view) = many();
        assert_eq!(seen(&view), (991..=1000).rev().collect::<Vec<_>>());
        assert_eq!(chosen(&view), 1000);
        press(&mut view, &[KeyCode::Down; 12]);
        assert_eq!(chosen(&view), 988);
        press(&mut view, &[KeyCode::End]);
        assert_eq!((chosen(&view), seen(&view).len()), (1, 10));
        press(&mut view, &[KeyCode::PageUp, KeyCode::Up, KeyCode::Down]);
        assert_eq!(chosen(&view), 11);
        press(&mut view, &[KeyCode::Home, KeyCode::Up]);
        assert_eq!(chosen(&view), 1000);
        view.resize(3);
        press(&mut view, &[KeyCode::PageDown]);
        assert_eq!((chosen(&view), seen(&view).len()), (997, 3));
        // It ends: who comes after it is chosen then.
        std::fs::remove_file(folder.path().join("997/status")).unwrap();
        view.refresh(sample(folder.path()));
        assert_eq!(chosen(&view), 996);
        // All end.
        view.refresh(Sample::default());
        assert!(seen(&view).is_empty());
        assert_eq!(
            press(&mut view, &[KeyCode::Down, KeyCode::Enter]),
            Wish::Nothing
        );
    }

    #[test]
    fn keys_sort_and_the_chosen_one_is_kept() {
        let (_folder, mut view) = many();
        press(&mut view, &[KeyCode::Down, KeyCode::Char('N')]);
        assert_eq!(chosen(&view), 999);
        press(&mut view, &[KeyCode::Home]);
        assert_eq!(chosen(&view), 1);
        press(&mut view, &[KeyCode::Char('I'), KeyCode::Home]);
        assert_eq!(chosen(&view), 1000);
        for open in [KeyCode::F(6), KeyCode::Char('<'), KeyCode::Char('>')] {
            press(&mut view, &[open, KeyCode::End, KeyCode::Enter]);
            assert_eq!(
                (view.order, &view.mode),
                (Order::by(Column::Name), &Mode::List)
            );
            press(
                &mut view,
                &[open, KeyCode::Home, KeyCode::Down, KeyCode::Enter],
            );
            assert_eq!(view.order, Order::by(Column::User));
            press(&mut view, &[open, KeyCode::Down, KeyCode::Esc]);
            assert_eq!(view.order, Order::by(Column::User));
        }
    }

    #[test]
    fn a_name_is_found_and_filtered() {
        let (_folder, mut view) = many();
        press(&mut view, &[KeyCode::Char('/')]);
        typed(&mut view, "NEED");
        assert_eq!(chosen(&view), 777);
        press(&mut view, &[KeyCode::F(3)]);
        assert_eq!(chosen(&view), 777);
        press(&mut view, &[KeyCode::Esc, KeyCode::F(3)]);
        typed(&mut view, "42");
        assert_eq!(chosen(&view), 42);
        press(&mut view, &[KeyCode::Enter, KeyCode::F(4)]);
        typed(&mut view, "nee");
        assert_eq!(seen(&view), [777]);
        press(&mut view, &[KeyCode::Enter]);
        assert_eq!(press(&mut view, &[KeyCode::Enter]), Wish::Details(777));
        press(&mut view, &[KeyCode::F(4), KeyCode::Esc]);
        assert_eq!(view.count(), 1000);
    }

    #[test]
    fn what_is_open_closes_before_the_program_ends() {
        let (_folder, mut view) = many();
        for open in [KeyCode::F(1), KeyCode::Char('h'), KeyCode::Char('?')] {
            press(&mut view, &[open]);
            assert_eq!(view.mode, Mode::Help);
            assert_eq!(press(&mut view, &[KeyCode::Char('q')]), Wish::Nothing);
        }
        view.mode = Mode::Details(vec![String::new(); 5], 0);
        press(&mut view, &[KeyCode::End, KeyCode::Up]);
        assert_eq!(view.mode, Mode::Details(vec![String::new(); 5], 3));
        press(&mut view, &[KeyCode::Esc]);
        assert_eq!(press(&mut view, &[KeyCode::Char('q')]), Wish::Quit);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        press(&mut view, &[KeyCode::Char('/')]);
        assert_eq!(view.press(interrupt), Wish::Quit);
    }
}
