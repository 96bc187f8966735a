// Package hostile has the hostile-client suite: its test starts a cluster of processes
// with tokens, and plays attacks on it, one after the other, while honest clients
// publish and subscribe. Each attack has a process of its own, with the lowest priority:
// what it takes of the processors itself is not held against the cluster. A second test
// attacks a cluster with TLS. After each attack the same must be true:
//
//   - no process has ended, and none takes more memory than its limits allow;
//   - no election took place, and no node was evicted;
//   - the honest clients kept their connections, and no list lacked what they have
//     registered;
//   - the console, the database, the control socket and, with TLS, each node answered
//     another caller during the attack, on a new connection each time;
//   - no process has written much into its log, or has many more series of metrics;
//   - the usual 99th percentile from publish to push (the median of those of windows of
//     250 ms) at most doubled during the attack, against the second before it, in which
//     a load that harms nobody took the processors instead; slow readers are compared
//     with as many subscriptions that are read. Times up to 20 ms are not compared. An
//     attack after which it did not hold is played again, twice at most: what other
//     processes of the machine cause does not come again.
//
// An attack also checks what it is answered. SECURITY.md names what prevents each.
package hostile
