//! A builder of device trees.

/// A builder of device trees in the format of the Devicetree Specification, version 17.
#[derive(Default)]
pub(crate) struct Tree {
    structs: Vec<u8>,
    strings: Vec<u8>,
    pub(crate) reservations: Vec<u8>,
}

impl Tree {
    fn word(&mut self, word: u32) {
        self.structs.extend(word.to_be_bytes());
    }

    fn pad(&mut self) {
        self.structs
            .resize(self.structs.len().next_multiple_of(4), 0);
    }

    pub(crate) fn node(&mut self, name: &str, inside: impl FnOnce(&mut Self)) -> &mut Self {
        self.word(1);
        self.structs.extend(name.bytes().chain([0]));
        self.pad();
        inside(self);
        self.word(2);
        self
    }

    pub(crate) fn property(&mut self, name: &str, value: &[u8]) -> &mut Self {
        self.word(3);
        self.word(value.len() as u32);
        self.word(self.strings.len() as u32);
        self.strings.extend(name.bytes().chain([0]));
        self.structs.extend(value);
        self.pad();
        self
    }

    pub(crate) fn cells(&mut self, name: &str, cells: &[u32]) -> &mut Self {
        let value: Vec<u8> = cells.iter().flat_map(|c| c.to_be_bytes()).collect();
        self.property(name, &value)
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.word(9);
        self.reservations.extend([0; 16]);
        let reservations = 40;
        let structs = reservations + self.reservations.len();
        let strings = structs + self.structs.len();
        let total = strings + self.strings.len();
        let header = [
            0xd00d_feed,
            total,
            structs,
            strings,
            reservations,
            17,
            16,
            0,
            self.strings.len(),
            self.structs.len(),
        ];
        let mut blob: Vec<u8> = header
            .iter()
            .flat_map(|&w| (w as u32).to_be_bytes())
            .collect();
        blob.extend(self.reservations);
        blob.extend(self.structs);
        blob.extend(self.strings);
        blob
    }
}
