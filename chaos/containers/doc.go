// Package containers plays scenarios on a cluster of containers: it kills, stops,
// pauses and continues them, and takes their cables to the project's networks out.
//
// What is cut here is a host's cable: a node from the database, or a node from
// everybody. What passes between two given nodes, wall clocks, and the moment
// between two statements cannot be touched from outside, and are refused with
// chaos.ErrUnsupported; packages processes and sim can do more. This one shows
// that real MySQL and MariaDB, and hosts of their own, behave as those assume.
package containers
