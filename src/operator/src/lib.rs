//! m87 on Kubernetes. Reconcilers turn facts into a decision (pure) and do it; the authority's traits are implemented by
//! API objects, pods and token reviews.
