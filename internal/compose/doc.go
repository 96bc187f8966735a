// Package compose drives a cluster that runs in containers: a project of docker
// compose, brought up, broken piece by piece, asked, and taken down.
//
// # How
//
// It calls the programs everybody has, `docker compose` to make the project and
// `docker` for the rest, and speaks to no engine by itself: what it does can be
// done by hand, and an error is what the program said.
//
//	Config -- New --> Project -- Up --> containers, networks, volumes
//	                     |
//	                     +-- Kill, Stop, Start, Restart      processes
//	                     +-- Pause, Unpause                  a frozen host
//	                     +-- Cut, Join                       a broken network
//	                     +-- Published, Outside              the way in, from this machine
//	                     +-- Probe, AwaitReady, Logs         what it is doing
//	                     +-- Down                            nothing is left
//
// A container is looked for by the label that compose gives it, so a Project needs
// no memory: another process may use the same one.
//
// # The way in
//
// Nodes tell clients the addresses at which they reach each other, which need not
// mean anything on this machine (on Linux they often do, on others they never do).
// Ports are published on the loopback instead, and Outside is a network that takes a
// dial to what a node advertises to the port under which this machine reaches it.
//
// # Guarantees
//
//   - Every call ends with its context, or after a limit of its own; a program that
//     was cut off is gone when the call returns.
//   - The programs run in a process group of their own: a Ctrl-C at the terminal
//     reaches the caller only, who decides what is still to be done.
//   - Up takes down what an interrupted run of the same project has left, whatever
//     state that is in: paused, half made, cut from a network. Down does the same and
//     may be repeated.
//
// # What is not guaranteed
//
// Two who drive one project at the same time disturb each other; nothing keeps them
// apart. Names of projects do.
//
// # When a part dies
//
//	this process        the project runs on; the next Up or Down of that name ends it
//	the engine          every call fails with its words; containers may live or not
//	a container         its state says so; Start brings it back with its files
package compose
