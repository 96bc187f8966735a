// Package rights decides who may do what: a token names an identity, and the
// identity has a right.
//
//	tokens.go  the four rights, tokens as parsed from a file, or bound to an address, and
//	           those that are valid now: reloaded, and revoked
//
// A node without tokens is open: every request has the right operator.
//
//	file --Open, Run--> Tokens --Identify--> Identity --With--> context of the request
//	                       |
//	                       +--Hold: what runs for long ends when its token is revoked
//
// # Guarantees
//
//   - A token is compared by its SHA-256 digest with all tokens, in a time that
//     does not depend on them.
//   - A file that cannot be read or parsed changes nothing: the tokens of the
//     last good one stay valid. No error or log line contains a token.
//
// # What is not guaranteed
//
//   - That all nodes reload at the same moment. To change a token, add the new
//     one to the files of all nodes, then use it, then remove the old one.
package rights
