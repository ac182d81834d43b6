//! Describes a node's health with one word and a color.

use super::{
    feed::{NodeState, WatchedNode},
    sample::Sample,
    table::CellStyle,
};

/// Returns a node's state as its row shows it: a word, and whether it is good.
pub(super) fn state(node: &WatchedNode) -> (String, CellStyle) {
    let (word, look) = match &node.now {
        NodeState::Connecting => ("connecting", CellStyle::Plain),
        NodeState::Unreachable(_) => ("unreachable", CellStyle::Failure),
        NodeState::Reporting(sample) if sample.state != "serving" => {
            (sample.state.as_str(), CellStyle::Warning)
        }
        NodeState::Reporting(sample) if !problems(sample).is_empty() => ("degraded", CellStyle::Warning),
        NodeState::Reporting(_) => ("healthy", CellStyle::Good),
    };
    (word.to_owned(), look)
}

/// Returns why a node that serves is degraded; empty: it is healthy.
pub(super) fn problems(sample: &Sample) -> Vec<String> {
    let problem = |is: bool, text: &str| is.then(|| text.to_owned());
    let redis = sample.redis.as_ref().filter(|redis| *redis != "follows");
    let breaker = sample.redis_breaker.as_ref().filter(|breaker| *breaker != "closed");
    [
        problem(!sample.store_answers, "store does not answer"),
        problem(!sample.trusted, "memory not trusted"),
        redis.map(|redis| format!("Redis {redis}")),
        breaker.map(|breaker| format!("breaker {breaker}")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(sample: Sample) -> String {
        let now = NodeState::Reporting(Box::new(sample));
        state(&WatchedNode { now, ..WatchedNode::new("127.0.0.1:1".to_owned()) }).0
    }

    #[test]
    fn each_problem_degrades_a_node() {
        let well = || Sample {
            state: "serving".to_owned(),
            trusted: true,
            store_answers: true,
            redis: Some("follows".to_owned()),
            redis_breaker: Some("closed".to_owned()),
            ..Sample::default()
        };
        assert_eq!(word(well()), "healthy");
        assert_eq!(word(Sample { redis: None, redis_breaker: None, ..well() }), "healthy", "a single node");
        for degraded in [
            Sample { trusted: false, ..well() },
            Sample { store_answers: false, ..well() },
            Sample { redis: Some("away".to_owned()), ..well() },
            Sample { redis_breaker: Some("half_open".to_owned()), ..well() },
        ] {
            assert_eq!(problems(&degraded).len(), 1);
            assert_eq!(word(degraded), "degraded");
        }
        assert_eq!(word(Sample { state: "starting".to_owned(), ..Sample::default() }), "starting");
    }
}
