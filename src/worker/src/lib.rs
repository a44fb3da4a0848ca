//! m87-worker
