// Package certs is the certificates of processes: how they are loaded from
// files, reloaded without a restart, and issued by a development CA.
//
// # Files, in reading order
//
//	set.go     the certificates of a process, their reload, and the settings of connections made with them
//	refuse.go  the answer to a peer that does not use TLS
//	issue.go   a development CA and the certificates that it issues
//
// # Guarantees
//
//   - A new connection uses the newest valid files, read at most a second
//     before; connections in use go on.
//   - Files that are not valid (a key that does not fit, a certificate that the
//     CAs do not verify, one that has expired, a file that is missing) never
//     replace valid ones. They are reported once and counted.
//   - TLS 1.3 is the lowest version. Sessions are not resumed, so that every
//     connection is verified against the CAs of its time.
//
// # What is not guaranteed
//
// There is no revocation list: to withdraw a certificate before it expires,
// replace the CA. A connection that is open when its certificate expires, or when
// its CA is removed, stays open.
package certs
