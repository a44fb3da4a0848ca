//! A gateway that is too busy: what is done is told before anything new is taken.

use super::fake::Fake;
use super::{Running, WorkerOptions, answer, done, options};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tonic::Status;

#[tokio::test]
async fn a_result_that_a_busy_engine_does_not_take_yet_goes_before_new_jobs() {
    for push in [false, true] {
        let (fake, client) = Fake::serve(push);
        let (first, second) = (fake.create(3), fake.create(3));
        for _ in 0..5 {
            fake.state().refuse_reports.push_back(Status::resource_exhausted("busy"));
        }
        // Each job, and how many were completed when it was taken.
        let taken = Arc::new(Mutex::new(Vec::new()));
        let (seen, gateway) = (taken.clone(), fake.clone());
        let handler = answer(move |job, _| {
            seen.lock().unwrap().push((job.key.0, gateway.state().completed.len()));
            async { done() }
        });
        let one_at_a_time = WorkerOptions { max_jobs: 1, timeout: Duration::from_secs(5), ..options() };
        let running = Running::start(&client, one_at_a_time, handler);
        fake.until("both completed", |s| s.completed.len() == 2).await;
        assert_eq!(*taken.lock().unwrap(), [(first, 0), (second, 1)], "push: {push}");
        assert!(fake.state().refuse_reports.is_empty() && fake.state().failed.is_empty(), "push: {push}");
        running.stop().await;
    }
}
