//! The flags that Cassandra requires on Java 17, as in its own start script.

/// Packages that its code uses in spite of the module rules.
pub(super) const EXPORTS: [&str; 10] = [
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "java.base/java.lang.ref",
    "jdk.unsupported/sun.misc",
    "jdk.attach/sun.tools.attach",
];

/// Packages into which it reflects.
pub(super) const OPENS: [&str; 17] = [
    "java.base/java.lang.module",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "jdk.management/com.sun.management.internal",
    "java.base/sun.nio.ch",
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.reflect",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.nio",
    "java.rmi/sun.rmi.transport.tcp",
];

pub(super) const PROPERTIES: [&str; 6] = [
    "cassandra-foreground=yes",
    "jdk.attach.allowAttachSelf=true",
    "io.netty.tryReflectionSetAccessible=true",
    "cassandra.skip_wait_for_gossip_to_settle=0",
    "cassandra.ring_delay_ms=1",
    "cassandra.superuser_setup_delay_ms=0",
];

/// Options that only a server that is never killed may have: schema changes are not written to disk at once;
/// every test creates a whole keyspace.
pub(super) const UNHARMED: [&str; 2] =
    ["cassandra.test.flush_local_schema_changes=false", "cassandra.unsafesystem=true"];
