/// A call, and the number that it reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<T> {
    /// When it began.
    pub(super) began: u64,
    /// The number that it reached.
    pub(super) at: u64,
    pub(super) what: T,
}

/// Steps that reached less than an earlier answer. `answers`: the number that each reached, and when. Each step is
/// returned with the highest of these answers.
pub(super) fn behind<T: Copy>(mut steps: Vec<Step<T>>, mut answers: Vec<(u64, u64)>) -> Vec<(Step<T>, u64)> {
    steps.sort_by_key(|step| step.began);
    answers.sort_unstable_by_key(|(_, ended)| *ended);
    let (mut next, mut farthest, mut behind) = (0, 0, Vec::new());
    for step in steps {
        while let Some((at, _)) = answers.get(next).filter(|(_, ended)| *ended < step.began) {
            farthest = farthest.max(*at);
            next += 1;
        }
        if step.at < farthest {
            behind.push((step, farthest));
        }
    }
    behind
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(steps: &[(u64, u64)], answers: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let steps = steps.iter().map(|(began, at)| Step { began: *began, at: *at, what: () }).collect();
        behind(steps, answers.to_vec()).into_iter().map(|(step, farthest)| (step.at, farthest)).collect()
    }

    #[test]
    fn only_an_answer_of_before_counts() {
        let answers = [(5, 10), (9, 20)];
        assert_eq!(found(&[(10, 4), (11, 5), (20, 6), (21, 9)], &answers), []);
        assert_eq!(found(&[(11, 4), (21, 8)], &answers), [(4, 5), (8, 9)]);
    }

    #[test]
    fn farthest_answer_counts_and_not_the_last() {
        assert_eq!(found(&[(30, 6)], &[(7, 10), (2, 20)]), [(6, 7)]);
    }
}
