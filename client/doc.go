// Package client is what an application imports to publish and subscribe.
//
//	c, err := client.New(client.Config{Sessions: []string{"127.0.0.1:9603"}})
//	c.Start()
//	defer c.Close(ctx)
//
//	p, err := c.Publish(ctx, "com.example.Greeter", []string{"10.0.0.1:8080"})
//	err = p.Stored(ctx)                  // every subscriber is about to see it
//
//	s, err := c.Subscribe("com.example.Greeter")
//	for d := range s.C() { ... }         // the newest list, whenever it changes
//
// The client keeps what the application wishes, and makes sessions know it. It
// holds one connection to one session. When that session is lost, it goes to
// another and tells it everything anew; when that session wants to stop, it is
// told elsewhere first. The application sees nothing of either: its lists stay,
// and its publications stay visible to others.
//
//	              welcomed: everything is told anew
//	(seeking) -------------------------------------------> (held)
//	   ^   |                                                |  |
//	   |   +-- nobody: again after 20 ms .. 2 s             |  | asked to move
//	   |                                                    |  v
//	   +---------- lost: another one, at once --------------+ (moving) -> held there,
//	                                                          once data has all of it
//
// # Registration and acknowledgement
//
// A Publication is one registration: an id that is random per process, and a
// version that grows by one with each Update and with Withdraw. Sending it twice
// changes nothing, and an older version never replaces a newer one, whichever
// sessions they pass. So the client may repeat what it likes, and repeats
// everything at each new session: the newest version of each publication, and
// withdrawals until they are stored and for a session grace (15 s) after that.
// Sessions and data nodes remember a withdrawal for as long; those that do may all
// be lost at once, and then nobody but this client contradicts an older copy.
//
// Accepted: a session has the version in its set. It will see to it that data
// gets it, also when data is just moving, or when this client loses its
// connection for less than the client lease. Stored: data has it.
//
// # What is guaranteed
//
//   - What a subscription shows never goes back: only higher versions are taken,
//     and what was seen last stays while no session can be reached.
//   - A subscriber that is slow sees fewer versions, but the newest in the end;
//     it delays neither other subscriptions nor the client.
//   - Wrong input (a name, a size) is refused by the call itself, before
//     anything is sent. What a session refuses (a missing token) ends as the
//     error of that publication, and of no other.
//   - Close withdraws everything and waits until data has that.
//
// # What is not
//
//   - Not every version is seen: changes that come close together are merged.
//   - An application that dies without Close is seen for the client lease longer
//     (5 s by default), or for the session grace (15 s) if its session dies too:
//     its silence and a broken network look alike.
//   - What was withdrawn may be seen again, for a session grace, when the session
//     and the leader of the slot, whose follower has an older copy, are lost at
//     once, and this client is gone as well, or withdrew it longer ago than that.
//   - A first push may wait while the registry cannot tell an empty list from
//     lost data; see the push guard in package session.
//
// # When a part dies
//
//   - The session: another one has everything within milliseconds; publishers
//     are not missing in between, since data keeps the lost session's copies.
//   - All sessions: what was seen stays; the client tries for ever.
//   - Data nodes, metas, the database: not noticed here, but that Stored waits.
//
// The reconnecting worker, the replay and the list that stays are those of the
// client in article 002; the original's worker looks every half second and waits
// up to five seconds, this one acts on the end of the stream.
package client
