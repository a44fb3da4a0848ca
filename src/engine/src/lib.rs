//! m87-engine
