//! A run's Redis, and the scripts as the run has them.

use kith_cache::remote::redis::{RedisScript, ScriptCall, ScriptRunner};

use super::{connection::TestRedis, edited::EditedScripts, mutants::Mutant};

/// The server's clock when the test begins.
const BEGIN_MS: u64 = 1_790_000_000_000;

/// The real Redis, with scripts whose clock is set.
pub(super) struct Server {
    pub(super) redis: TestRedis,
    pub(super) scripts: EditedScripts,
    set: RedisScript,
    pub(super) save: RedisScript,
    pub(super) restore: RedisScript,
}

impl Server {
    pub(super) async fn connect(mutant: Option<&Mutant>) -> Self {
        let redis = TestRedis::connect().await;
        let clock = format!("{{'{0}:s', '{0}:us'}}", clock_key(&redis.runner));
        let clock = format!("redis.call('MGET', unpack({clock}))");
        let of_mutant = mutant.map_or(&[][..], |mutant| mutant.edits);
        let scripts = EditedScripts::new(
            [("redis.call('TIME')", &*clock)].into_iter().chain(of_mutant.iter().copied()),
        );
        let set = RedisScript::new("return redis.call('MSET', KEYS[1], ARGV[1], KEYS[2], ARGV[2])");
        let save = RedisScript::new("return { redis.call('DUMP', KEYS[1]), redis.call('DUMP', KEYS[2]) }");
        let restore = RedisScript::new(
            "for index = 1, 2 do
                redis.call('DEL', KEYS[index])
                if ARGV[index] ~= '' then redis.call('RESTORE', KEYS[index], 0, ARGV[index]) end
            end
            return 0",
        );
        Self { redis, scripts, set, save, restore }
    }

    pub(super) fn clock_call(&self, passed_ms: u64) -> ScriptCall<'_> {
        let now = BEGIN_MS + passed_ms;
        let key = clock_key(&self.redis.runner);
        let keys = vec![format!("{key}:s"), format!("{key}:us")];
        ScriptCall::new(&self.set, keys, [(now / 1_000).to_string(), (now % 1_000 * 1_000).to_string()])
    }
}

/// It need not be in the keys' slot: the tests' server is no cluster.
fn clock_key(runner: &ScriptRunner) -> String {
    format!("{{{}}}:clock", runner.tag())
}
