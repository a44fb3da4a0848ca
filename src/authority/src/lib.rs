//! m87-authority
