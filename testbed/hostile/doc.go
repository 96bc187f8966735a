// Package hostile has the hostile-client suite: its test starts a cluster of processes
// with tokens, and plays attacks on it, one after the other, while honest clients
// publish and subscribe. After each of them the same must be true:
//
//   - no process has ended, and none takes more memory than its limits allow;
//   - no election took place, and no node was evicted;
//   - the honest clients kept their connections, and no list lacked what they have
//     registered;
//   - the 99th percentile from publish to push at most doubled, against the same run
//     before the attacks. Below a floor it may do what it likes: a ratio of
//     milliseconds on a busy machine is noise.
//
// An attack also checks what it is answered. SECURITY.md names what prevents each.
package hostile
