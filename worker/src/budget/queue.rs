//! Calls that wait for a token of one bucket.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::key::Priority;
use super::permit::{Parked, Permit};

/// Who waits, and where the answer goes.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) priority: Priority,
    pub(super) since: Instant,
    pub(super) answer: oneshot::Sender<Result<Permit, Parked>>,
}

/// One line per priority. The most urgent is served first; who waits long moves up.
#[derive(Debug, Default)]
pub(super) struct Queue {
    lines: [VecDeque<Waiter>; Priority::ALL.len()],
}

impl Queue {
    pub(super) fn push(&mut self, waiter: Waiter) {
        self.lines[waiter.priority as usize].push_back(waiter);
    }

    /// The next to be served.
    pub(super) fn pop(&mut self, age: Duration, now: Instant) -> Option<Waiter> {
        for line in &mut self.lines {
            while line.front().is_some_and(|waiter| waiter.answer.is_closed()) {
                line.pop_front();
            }
        }
        let fronts = self.lines.iter().enumerate().filter_map(|(line, waiters)| Some((line, waiters.front()?)));
        let (line, _) = fronts.min_by_key(|(line, waiter)| (rank(*line, waiter.since, age, now), waiter.since))?;
        self.lines[line].pop_front()
    }

    /// How many wait, not counting those that have given up.
    pub(super) fn waiting(&mut self) -> usize {
        for line in &mut self.lines {
            line.retain(|waiter| !waiter.answer.is_closed());
        }
        self.lines.iter().map(VecDeque::len).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.iter().all(VecDeque::is_empty)
    }

    /// Takes out all who wait, not counting those that have given up.
    pub(super) fn take_all(&mut self) -> Vec<Waiter> {
        let all = self.lines.iter_mut().flat_map(|line| line.drain(..));
        all.filter(|waiter| !waiter.answer.is_closed()).collect()
    }
}

/// The line of a call after its wait so far has moved it up.
fn rank(line: usize, since: Instant, age: Duration, now: Instant) -> usize {
    let waited = now.saturating_duration_since(since).as_millis();
    let up = waited / age.as_millis().max(1);
    line.saturating_sub(usize::try_from(up).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Answer = oneshot::Receiver<Result<Permit, Parked>>;

    fn wait(queue: &mut Queue, priority: Priority, since: Instant) -> Answer {
        let (answer, receiver) = oneshot::channel();
        queue.push(Waiter { priority, since, answer });
        receiver
    }

    #[test]
    fn urgent_calls_go_first_and_equals_in_order() {
        let now = Instant::now();
        let mut queue = Queue::default();
        let order = [Priority::Resync, Priority::Poll, Priority::UserChange, Priority::Poll, Priority::Delete];
        let _answers: Vec<Answer> = order.iter().map(|priority| wait(&mut queue, *priority, now)).collect();
        let served = std::iter::from_fn(|| queue.pop(Duration::from_secs(30), now)).map(|waiter| waiter.priority);
        let wanted = [Priority::UserChange, Priority::Delete, Priority::Poll, Priority::Poll, Priority::Resync];
        assert_eq!(served.collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn no_call_waits_for_ever() {
        let start = Instant::now();
        let age = Duration::from_secs(30);
        let mut queue = Queue::default();
        let _old = wait(&mut queue, Priority::Resync, start);
        let now = start + age * 4 + Duration::from_secs(1);
        let _new = wait(&mut queue, Priority::UserChange, now);
        assert_eq!(queue.pop(age, now).map(|waiter| waiter.priority), Some(Priority::Resync));
    }

    #[test]
    fn who_has_given_up_is_not_counted_and_not_served() {
        let now = Instant::now();
        let mut queue = Queue::default();
        drop(wait(&mut queue, Priority::UserChange, now));
        let _waits = wait(&mut queue, Priority::Resync, now);
        assert_eq!(queue.waiting(), 1);
        assert_eq!(queue.pop(Duration::from_secs(30), now).map(|waiter| waiter.priority), Some(Priority::Resync));
        assert!(queue.is_empty());
    }
}
