//! m87-zeebe
