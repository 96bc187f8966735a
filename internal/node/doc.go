// Package node is what the processes of all roles do in the same way. A role's
// server embeds a Base, and consists of it and of the role's own parts.
//
//	config.go   the settings of every node: defaults, then validation
//	base.go     what a node is made of, its life from listener to end, and its way into and out of the cluster
//	router.go   the paths, services and metrics of every role, profiles included
//
// # The life of a node
//
//	New ---> Run: listen, serve, run the role's loops ---> ended
//	                 |                                      ^
//	                 +--- Shutdown: the role's stages ------+  nil
//	                 +--- the context ends: a crash --------+  its cause
//	                 +--- a part fails for good ------------+  the error
//
// A crash notifies no other node. Whichever way a node ends, its loops end
// first, then its listener closes, and Run joins everything that it started.
package node
