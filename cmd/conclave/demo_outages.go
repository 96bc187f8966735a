package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"conclave/internal/sleep"
	"conclave/wire"
)

// outages are the scenes that need containers: suspended hosts, broken
// networks, and a real database.
type outages struct {
	*demo
	stage breakable
	lease time.Duration // of the leader
}

// breakable is a stage on which nodes and the database "db" can be suspended
// and restarted, and metas cut off from the database.
type breakable interface {
	Pause(ctx context.Context, name string) error
	Unpause(ctx context.Context, name string) error
	// Cut disconnects a meta from the database; the function connects it again.
	Cut(ctx context.Context, name string) (join func(context.Context) error, err error)
	Restart(ctx context.Context, name string) error
	// Answered waits until the database accepts connections after since, and
	// returns when it began to.
	Answered(ctx context.Context, name string, since time.Time) (time.Time, error)
}

// The claims of these scenes.
const (
	claimFrozen = "a leader that was frozen never acts in its old term"
	claimCut    = "a leader cut from its database stops within its lease"
	claimOutage = "what is published without a database arrives"
)

// freezeLeader suspends the leader, the article's worst case: when it
// continues, it does not know how much time has passed.
func (o *outages) freezeLeader(ctx context.Context) error {
	old, err := o.leader(ctx)
	if err != nil {
		return err
	}
	at, err := address(o.demo.stage, "meta", old.Leader)
	if err != nil {
		return err
	}
	o.story.scene("FREEZE THE LEADER", fmt.Sprintf("docker pause %s, which leads term %d; it continues when another leads, and does not know that time has passed", old.Leader, old.Term))
	o.ledger.Phase()
	began := time.Now()
	if err := o.stage.Pause(ctx, old.Leader); err != nil {
		return err
	}
	next, err := o.awaitTerm(ctx, old.Term)
	if err != nil {
		return err
	}
	o.story.figure("replaced by", next.Leader, fmt.Sprintf("term %d, cause %q, after %s", next.Term, next.Cause, ms(since(began))))

	// A command for the old leader only, sent to the suspended process.
	sending, stop := context.WithCancel(ctx)
	answer := make(chan string, 1)
	var sender sync.WaitGroup
	defer sender.Wait()
	defer stop()
	sender.Go(func() { answer <- o.commandTo(sending, at) })
	if err := sleep.For(ctx, max(0, 2*o.lease-time.Since(began))); err != nil {
		return err
	}
	// The first query is waiting when it continues. From its answer on it must
	// not report that it leads.
	thawed := time.Now()
	thawing := make(chan error, 1)
	go func() { thawing <- o.stage.Unpause(ctx, old.Leader) }() // joined below
	asked := 0
	waiting, cancel := context.WithTimeout(ctx, sceneWait)
	defer cancel()
	err = poll(waiting, func() (bool, error) {
		term, leads, err := o.leads(waiting, at)
		if err != nil {
			return false, nil // still suspended
		}
		asked++
		o.claims.judge(claimFrozen, !leads || term > old.Term, "%s, continued for %v, reports that it leads term %d", old.Leader, time.Since(thawed).Round(time.Millisecond), term)
		said, err := o.adminAt([]string{at}).Leader(waiting)
		return err == nil && said.Term >= next.Term, err
	})
	if err = errors.Join(<-thawing, err); err != nil {
		return fmt.Errorf("%s does not find the leader after it was continued: %w", old.Leader, err)
	}
	o.story.figure("continued, it names "+next.Leader+" after", ms(since(thawed)), fmt.Sprintf("in %d queries since, it never reported that it leads", asked))
	said := <-answer
	refused := said == string(wire.CodeNoLeader) || said == string(wire.CodeNotLeader)
	o.claims.judge(claimFrozen, refused, "a command that reached it while suspended was answered %q", said)
	o.story.figure("a command sent while suspended", "refused", said)
	if err := o.lost(ctx, at, old.Term); err != nil {
		return err
	}
	if err := o.judge(ctx); err != nil {
		return err
	}
	o.lookAt("election list", "events")
	return o.settle(ctx)
}

// commandTo sends the command to set a switch to one meta as if another had
// forwarded it, so that it executes it itself or refuses. It returns the code
// of the refusal.
func (o *outages) commandTo(ctx context.Context, at string) string {
	ctx, cancel := context.WithTimeout(ctx, sceneWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+at+"/v1/switches/"+wire.SwitchProtectionFloor, bytes.NewBufferString(`{"value":"1"}`))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Authorization", "Bearer "+o.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Conclave-Proxied", "demo")
	patient := *o.http
	patient.Transport = patientTransport(o.http)
	res, err := patient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err != nil {
		return err.Error()
	}
	var refusal struct {
		Error struct{ Code string }
	}
	if res.StatusCode == http.StatusOK || json.Unmarshal(body, &refusal) != nil {
		return fmt.Sprintf("%s %s", res.Status, body)
	}
	return refusal.Error.Code
}

// patientTransport waits for an answer until the context ends.
func patientTransport(c *http.Client) http.RoundTripper {
	t, ok := c.Transport.(*http.Transport)
	if !ok {
		return c.Transport
	}
	t = t.Clone()
	t.ResponseHeaderTimeout, t.DisableKeepAlives = 0, true
	return t
}

// lost waits for a meta's event that it lost a term.
func (o *outages) lost(ctx context.Context, at string, term uint64) error {
	ctx, cancel := context.WithTimeout(ctx, sceneWait)
	defer cancel()
	why := ""
	err := poll(ctx, func() (bool, error) {
		_ = wire.ReadEvents(ctx, o.http, at, 0, false, func(e wire.Event) error { // repeated if it fails
			if e.Type == "leader.lost" && e.Term == term {
				why = fmt.Sprint(e.Data["why"])
			}
			return nil
		})
		return why != "", nil
	})
	if err != nil {
		return fmt.Errorf("%s does not report that it lost term %d: %w", at, term, err)
	}
	o.story.figure("why it stopped, by its event", "", why)
	return nil
}

// cutLeader disconnects the leader from the database. All other nodes still
// reach both, so the leader must stop by its own clock.
func (o *outages) cutLeader(ctx context.Context) error {
	old, err := o.leader(ctx)
	if err != nil {
		return err
	}
	at, err := address(o.demo.stage, "meta", old.Leader)
	if err != nil {
		return err
	}
	o.story.scene("CUT THE LEADER FROM ITS DATABASE", fmt.Sprintf("docker network disconnect, for %s, which leads term %d; sessions and data nodes still reach it", old.Leader, old.Term))
	o.ledger.Phase()
	began := time.Now()
	join, err := o.stage.Cut(ctx, old.Leader)
	if err != nil {
		return err
	}
	cut := time.Now() // its last renewal was earlier
	led, stopped, err := lastLed(ctx, cut, func(ctx context.Context) (bool, error) {
		_, leads, err := o.leads(ctx, at)
		return leads, err
	})
	if err != nil {
		return fmt.Errorf("%s still leads: %w", old.Leader, err)
	}
	o.claims.judge(claimCut, led <= o.lease, "%s led %v after it was cut off, its lease is %v", old.Leader, led.Round(time.Millisecond), o.lease)
	waiting, cancel := context.WithTimeout(ctx, sceneWait)
	defer cancel()
	if said, err := o.adminAt([]string{at}).Leader(waiting); err == nil { // an error is correct
		o.claims.judge(claimCut, said.Leader != old.Leader, "%s, cut off, returns itself at /v1/leader", old.Leader)
	} else {
		o.claims.judge(claimCut, wire.CodeOf(err) == wire.CodeNoLeader, "%s, cut off, answers %v", old.Leader, err)
	}
	o.story.figure("it stopped leading after", ms(stopped.Milliseconds()), fmt.Sprintf("by its own clock; its lease is %v", o.lease))
	next, err := o.awaitTerm(ctx, old.Term)
	if err != nil {
		return err
	}
	o.story.figure("the next leader is", next.Leader, fmt.Sprintf("term %d, cause %q, %s after the cut", next.Term, next.Cause, ms(since(began))))
	if err := o.lost(ctx, at, old.Term); err != nil {
		return err
	}
	if err := o.judge(ctx); err != nil {
		return err
	}
	o.lookAt("election list")
	if err := join(ctx); err != nil {
		return err
	}
	return o.settle(ctx)
}
