//! m87-api
