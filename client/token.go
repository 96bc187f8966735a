package client

import (
	"fmt"
	"slices"

	"conclave/wire"
	"conclave/wire/rights"
)

// sentToken returns the token with which calls are sent.
func (c *Client) sentToken() string {
	if token := c.token.Load(); token != nil {
		return *token
	}
	return ""
}

// tokenFor returns what is sent to a session: the token to those of the
// configuration, and one that is bound to the address to those that other processes
// have named. It takes no lock, as a ping must not wait for one.
func (c *Client) tokenFor(address string) string {
	given := c.config.Sessions
	if resolved := c.given.Load(); resolved != nil && !slices.Contains(given, address) {
		given = *resolved
	}
	return rights.TokenFor(c.sentToken(), address, given)
}

// readToken reads the token that is sent from now on. If that fails, the last one
// is sent again.
func (c *Client) readToken() {
	if c.config.TokenFrom == nil {
		return
	}
	token, err := c.config.TokenFrom()
	if err != nil {
		c.log.Warn("the last token is sent again", "error", err)
		return
	}
	c.token.Store(&token)
}

// retries reports whether the client tries again after this refusal: another
// token may be sent, or the session's file may have it by then.
func (c *Client) retries(refusal error) bool {
	return wire.CodeOf(refusal) == wire.CodeUnauthorized && c.config.TokenFrom != nil && !c.config.GiveUp
}

// noteRefusal records whether the sessions refuse the token; err is the result of
// an attempt to connect, or of a connection. It reports whether they do. A client
// that gives up has it as the error of all that it publishes and subscribes to.
func (c *Client) noteRefusal(err error) bool {
	code := wire.CodeOf(err)
	refused := code == wire.CodeUnauthorized || code == wire.CodeForbidden
	c.mu.Lock()
	defer c.mu.Unlock()
	if !refused {
		return false
	}
	if c.refusal == nil {
		c.log.Error("the sessions refuse this client's token", "error", err)
	}
	c.refusal = err
	defer c.settled.Notify()
	if !c.config.GiveUp {
		return true
	}
	for _, p := range c.sorted() {
		p.acknowledge(0, 0, err)
	}
	for id, s := range c.subs {
		s.err = err
		delete(c.subs, id)
	}
	return true
}

// noteAccepted records that a session takes clients with this token.
func (c *Client) noteAccepted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusal, c.unreached, c.welcomed = nil, nil, true
}

// because adds to the error of a wait why no session has answered, as far as that is
// known. The lock is held.
func (c *Client) because(err error) error {
	switch {
	case !c.running:
		return fmt.Errorf("%w (the client was not started: call Start or Run)", err)
	case c.refusal != nil:
		return fmt.Errorf("%w (%w)", err, c.refusal)
	case c.unreached != nil:
		return fmt.Errorf("%w (no session is reached: %w)", err, c.unreached)
	}
	return err
}
