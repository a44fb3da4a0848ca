//! Random moments that can be repeated: the seed is printed, and `M87_SEED` sets it.

/// A small generator (SplitMix64); its quality is enough for moments.
pub struct Random(u64);

impl Random {
    /// From `M87_SEED`, or from the clock; says which.
    pub fn new(test: &str) -> Self {
        let seed = std::env::var("M87_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            u64::from(now.subsec_nanos()) ^ now.as_secs()
        });
        println!("{test}: repeat with M87_SEED={seed} cargo test -p m87-tests {test}");
        Self(seed)
    }

    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `low` up to, and without, `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.draw() % (high - low)
    }
}
