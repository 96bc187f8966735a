// Package serve is the serving half of package wire: what a role needs to
// answer requests. Applications, which only call, do not import it.
//
// server.go is the HTTP server of a node's only port, with the paths that all roles
// serve; problem.go writes errors as problem details; routes.go is the table of
// all requests: the right and the roles that each needs, whether it lasts, and whether
// it is an act; identity.go checks the right, and the role over TLS, reports acts, and
// refuses what the web pages of others make browsers send; limits.go bounds bodies,
// readers of lists, connections and requests; page.go writes lists in pages; codec.go
// bounds the messages of clients; events.go is a node's event log.
package serve
