// Package admit bounds what clients may have at a time: connections, requests, bytes
// that wait, clients that arrive, turns. Each bound is a Budget, in all and for each
// key, which is the address of a client; its user chooses whether what exceeds it is
// refused (Try) or waits (Join, Wait).
//
//	bound                  of                        all      each     when it is reached
//	wire/serve Places      connections, requests     flags    flags    closed, or refused
//	wire/serve reads       answers with lists        64       -        refused
//	wire network           connections being set up  64       -        the next dial waits
//	session arrivals       clients being welcomed    64       -        wait, are sent that
//	session intake         bytes of messages         256 MiB  64 MiB   the stream ends
//	session subscriptions  bytes that wait           256 MiB  64 MiB   refused
//	session large          bytes of large sends      -        256 MiB  lists wait
//	session many           messages of many entries  CPUs/2   -        wait
package admit
