//! A namespace's whole log, put together of the pages in which m87 shows it.

use anyhow::{Context, ensure};
use m87_core::json::read_document;
use m87_core::log::{Checkpoint, Log, LogExport, LogPage};
use m87_core::sign::VerifyingKey;

/// A log with more entries does not become a file: it would be too long for whoever verifies it whole.
const MAX_ENTRIES: u64 = 4_000_000;

/// Asks for one page after the other. They are parts of the log as it was with the first.
pub(crate) async fn whole_log(ask: impl AsyncFn(String) -> anyhow::Result<String>) -> anyhow::Result<LogExport> {
    let first = read(&ask("log".to_owned()).await?)?;
    let key = VerifyingKey::from_hex(&first.public_key).context("the key of the log")?;
    let envelope = first.checkpoint.clone().context("the log's first page has no checkpoint")?;
    let checkpoint = Checkpoint::open(&envelope, &key).context("the log's first page")?;
    let size = checkpoint.size;
    ensure!(size <= MAX_ENTRIES, "the log has {size} entries, more than the {MAX_ENTRIES} that are put into one file");
    let mut export = LogExport::new(Vec::new(), envelope, &key);
    let (mut page, mut tree) = (first, Log::default());
    loop {
        let from = export.entries.len() as u64;
        ensure!(page.from == from, "a page of the log is another than the one from {from} of {size} entries");
        for entry in &page.entries {
            tree.append(entry.leaf()?);
        }
        export.entries.append(&mut page.entries);
        let now = export.entries.len() as u64;
        ensure!(now <= size, "the log has {size} entries, and its pages more");
        if now == size {
            ensure!(
                tree.root() == checkpoint.root,
                "the log's pages are not those of its checkpoint: the store was changed meanwhile; try again"
            );
            return Ok(export);
        }
        ensure!(now > from, "the page of the log from {from} of {size} entries is empty");
        page = read(&ask(format!("log?from={now}&size={size}")).await?)?;
    }
}

fn read(text: &str) -> anyhow::Result<LogPage> {
    read_document(text.as_bytes())
        .context("m87 answered something else than a page of a log; is it of another version?")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;
    use m87_core::log::{Log, LogEntry};
    use m87_core::sign::SigningKey;
    use m87_core::time::Timestamp;
    use std::sync::Mutex;

    fn key() -> SigningKey {
        SigningKey::from_seed(&[7; 32])
    }

    fn entries(count: u64) -> Vec<LogEntry> {
        (0..count).map(|at| LogEntry::opened(&format!("run-{at}"), "p")).collect()
    }

    /// What a server answers whose log has these entries.
    fn page(all: &[LogEntry], from: usize, to: usize) -> String {
        let mut log = Log::default();
        for entry in all {
            log.append(entry.leaf().unwrap());
        }
        let checkpoint = Checkpoint::new("c", "ns", &log, Timestamp::from_millis(0)).seal(&key()).unwrap();
        let checkpoint = (from == 0).then_some(checkpoint);
        let page = LogPage::new(from as u64, all[from..to].to_vec(), checkpoint, &key().verifying_key());
        String::from_utf8(page.to_bytes().unwrap()).unwrap()
    }

    /// Answers these, in order, and keeps what was asked.
    async fn walk(answers: Vec<String>) -> (Result<LogExport, String>, Vec<String>) {
        let (asked, answers) = (Mutex::new(Vec::new()), Mutex::new(answers.into_iter()));
        let export = whole_log(async |what| {
            asked.lock().unwrap().push(what);
            Ok(answers.lock().unwrap().next().unwrap())
        });
        let export = export.await.map_err(|error| format!("{error:#}"));
        (export, asked.into_inner().unwrap())
    }

    #[tokio::test]
    async fn the_pages_become_the_whole_log_of_the_first_ones_checkpoint() {
        let all = entries(7);
        let (export, asked) = walk(vec![page(&all, 0, 3), page(&all, 3, 6), page(&all, 6, 7)]).await;
        assert_eq!(asked, ["log", "log?from=3&size=7", "log?from=6&size=7"]);
        let export = export.unwrap();
        assert_eq!(export.entries, all);
        let (empty, asked) = walk(vec![page(&[], 0, 0)]).await;
        assert_eq!((empty.unwrap().entries.len(), asked.len()), (0, 1));
    }

    #[tokio::test]
    async fn what_is_no_part_of_one_whole_is_refused() {
        let (all, longer) = (entries(7), entries(8));
        let mut other = entries(7);
        other[6] = LogEntry::opened("another", "p");
        for (answers, why) in [
            (vec![page(&all, 0, 3), page(&all, 4, 7)], "from 3 of 7"),
            (vec![page(&all, 0, 3), page(&longer, 3, 8)], "its pages more"),
            (vec![page(&all, 0, 3), page(&other, 3, 7)], "not those of its checkpoint"),
            (vec![page(&all, 3, 7)], "no checkpoint"),
            (vec![page(&all, 0, 3), page(&all, 3, 3)], "is empty"),
            (vec!["{}".to_owned()], "something else than a page"),
        ] {
            let (export, _) = walk(answers).await;
            let error = export.unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
