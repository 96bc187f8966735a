// Package compose controls a cluster that runs in containers as a project of
// docker compose: it starts the project, injects faults, queries it and removes
// it.
//
// # How
//
// It runs the programs `docker compose`, to create the project, and `docker`,
// for everything else. It does not use the engine's API, so everything can also
// be done by hand, and an error contains what the program printed.
//
//	Config -- New --> Project -- Up --> containers, networks, volumes
//	                     |
//	                     +-- Signal, Stop, Start             processes
//	                     +-- Pause, Unpause                  a suspended host
//	                     +-- Cut, Join                       a broken network
//	                     +-- Published, Outside              access from this machine
//	                     +-- AwaitReady, Logs                its state
//	                     +-- Down                            remove everything
//
// Containers are found by the labels that compose sets, so another process can use the
// same project. Only what was cut is known to the Project that has cut it.
//
// # Access from this machine
//
// Nodes advertise to clients the addresses at which nodes reach each other,
// which this machine may not be able to dial (on Linux it often can, elsewhere
// it cannot). Ports are published on loopback instead. Outside is a network
// that translates a dial to an advertised address into one to the published
// port.
//
// # Guarantees
//
//   - Every call ends with its context or after its own limit; a program that was
//     interrupted has ended when the call returns.
//   - The programs run in their own process group: a Ctrl-C at the terminal reaches
//     only the caller.
//   - Up removes what an interrupted run of the same project has left in any state:
//     paused, partly created, disconnected from a network. Down does the same and can
//     be repeated.
//
// # What is not guaranteed
//
// Two processes that control one project at the same time disturb each other;
// nothing prevents it. Use different project names.
//
// # When a part fails
//
//	this process        the project continues; the next Up or Down of that name removes it
//	the engine          every call fails with its message; containers may continue or not
//	a container         its state shows it; Start starts it again with its files
package compose
