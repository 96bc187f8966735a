// Package client is what an application imports to publish and subscribe.
//
//	c, err := client.New(client.Config{Sessions: []string{"127.0.0.1:9603"}, Token: os.Getenv("CONCLAVE_TOKEN")})
//	c.Start()
//	defer c.Close(ctx)
//
//	p, err := c.Publish(ctx, "com.example.Greeter", []string{"10.0.0.1:8080"})
//	err = p.Stored(ctx)                  // data has it: subscribers are about to see it
//
//	s, err := c.Subscribe("com.example.Greeter")
//	for d := range s.C() { ... }         // the newest list, whenever it changes
//
//	w, err := c.Watch("limits")          // a value that an operator sets: conclave config set
//	for v := range w.C() { ... }
//
// The client keeps the application's publications and subscriptions, and
// registers them at a session. It has one connection to one session. When that
// session is lost, it connects to another and sends everything again (the
// replay); when that session asks it to move, it connects to another first. The
// application notices neither: its lists stay, and its publications stay
// visible to others.
//
// # Registration and acknowledgement
//
// A Publication is one registration: an id that is random per process, and a
// version that grows by one with each Update and with Withdraw. Sending it
// twice changes nothing, and an older version never replaces a newer one,
// whichever sessions they pass through. The client may therefore repeat
// anything. At each new session it sends the newest version of each
// publication, and withdrawals until they are stored and for a session grace
// (15 s) after that. Sessions and data nodes remember a withdrawal for the same
// time, but all those that do may be lost together; then only this client can
// override an older copy.
//
// Accepted means that a session has the version in its set. The session then
// makes sure that data gets it, even while slots are moving, and even if this
// client loses its connection for less than the client lease. Stored means that
// data has it.
//
// # When the session is slow
//
// The client sends it less (send.go): what waits is sent in larger messages, a
// newer version replaces an older one, and withdrawals and updates go before new
// publications. Pings do not wait behind it. While Config.MaxWaiting bytes wait for
// acceptance, Publish waits, too.
//
// # What is guaranteed
//
//   - What a subscription shows never goes back: only higher versions are taken,
//     and the last list stays while no session can be reached.
//   - A slow subscriber sees fewer versions, but always the newest in the end; it
//     delays neither other subscriptions nor the client.
//   - Invalid input (a name, a size) is refused by the call itself, before
//     anything is sent. What a session refuses (a missing right) becomes the
//     error of that publication only. What exceeds a limit of a session is sent
//     again, since there may be room later (send.go). A refused token is sent again, as
//     Config.TokenFrom returns it then, so that it may be replaced while
//     everything stays registered.
//   - Close withdraws everything and waits until data has that.
//
// # What is not guaranteed
//
//   - A push for every version: changes in quick succession are merged.
//   - Immediate removal: an application that dies without Close stays visible for
//     a quarter of the client lease if its kernel closes its connection and no
//     other client of its session was lost at that time (1.3 s by default, measured
//     from the kill to the last subscriber; 50 µs more for each registration). A
//     host that dies is silent, which looks the same as a broken network: then it is
//     two client leases (10 s) at most, one until the session notices and one to
//     come back. If its session dies as well it is the session grace (15 s), and
//     the push guard may hold a mass loss back for longer.
//   - A withdrawn publication may be visible again, for a session grace, if the
//     session and the slot's leader are lost together, the follower has an older
//     copy, and this client has ended or withdrew it longer ago than a session
//     grace.
//   - An immediate first push: it may wait while the registry cannot distinguish
//     an empty list from lost data; see the push guard in package session.
//
// # When a part fails
//
//   - The session: another one has everything within milliseconds. The client's
//     publications stay visible in between, since data keeps the lost session's
//     copies.
//   - All sessions: the last lists stay; the client retries for ever.
//   - Data nodes, meta nodes, the database: no effect here, except that Stored
//     waits.
package client
