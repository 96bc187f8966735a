package session

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"conclave"
	"conclave/session/registry"
	"conclave/wire"
	wirev1 "conclave/wire/v1"
	"conclave/wire/v1/wirev1connect"
)

// someData is a data node that answers Values.
type someData struct {
	wirev1connect.DataServiceClient
	answer func(context.Context, *wirev1.ValuesRequest) (*wirev1.ValuesResponse, error)
	calls  int
}

func (d *someData) Values(ctx context.Context, req *connect.Request[wirev1.ValuesRequest]) (*connect.Response[wirev1.ValuesResponse], error) {
	d.calls++
	res, err := d.answer(ctx, req.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(res), nil
}

var adoptEpoch = conclave.Epoch{Term: 3, Seq: 9}

// adopting runs a test with the adopter of a session with two slots, which this
// data node leads.
func adopting(d *someData, run func(a *adopter)) {
	r := registry.New(time.Minute, 0, nil)
	r.Resize(2, time.Now())
	for n := range 2 {
		r.Adopt(n, adoptEpoch, "data-1:9622", time.Now())
	}
	config := DefaultConfig()
	config.Logger = hclog.NewNullLogger()
	a := &adopter{&calls{config: config, registry: &locked{Registry: r}, nodes: newNodes(), data: func(string) wirev1connect.DataServiceClient { return d }}}
	_, begun := a.nodes.set(map[string]bool{"data-1:9622": true})
	ctx, cancel := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() { a.run(ctx, begun[0], nil) })
	run(a)
	cancel()
	loop.Wait()
}

func registered(id string, values ...string) *wirev1.Publisher {
	return &wirev1.Publisher{Id: id, DataInfoId: "svc-" + id + "#@#I#@#G", Version: 2, Values: values}
}

// holder answers as a data node does that has these registrations; an answer has
// at most so many.
func holder(most int, has ...*wirev1.Publisher) func(context.Context, *wirev1.ValuesRequest) (*wirev1.ValuesResponse, error) {
	return func(_ context.Context, req *wirev1.ValuesRequest) (*wirev1.ValuesResponse, error) {
		out, left := &wirev1.ValuesResponse{}, most
		for _, in := range req.GetSlots() {
			slot := &wirev1.FoundSlot{Slot: in.GetSlot(), Access: wirev1.Access_ACCESS_ACCEPT, LeaderEpoch: in.GetLeaderEpoch()}
			out.Slots = append(out.Slots, slot)
			for _, d := range in.GetDigests() {
				if left--; left < 0 {
					return out, nil
				}
				found := &wirev1.FoundValues{}
				for _, p := range has {
					if p.GetId() == d.GetId() && wire.DigestFits(d, p.GetValues()) {
						found = &wirev1.FoundValues{Found: true, Values: p.GetValues()}
					}
				}
				slot.Found = append(slot.Found, found)
			}
		}
		return out, nil
	}
}

// adopted calls adopt and returns the values that were found and the ids that are
// wanted.
func adopted(t *testing.T, a *adopter, named ...*wirev1.Publisher) (found map[string][]string, wanted []string) {
	found = map[string][]string{}
	var digests []*wirev1.PublisherDigest
	for _, p := range named {
		digests = append(digests, wire.PublisherDigestOf(p))
	}
	for _, d := range a.adopt(t.Context(), digests, func(some []*wirev1.Publisher) {
		for _, p := range some {
			assert.EqualValues(t, 2, p.GetVersion())
			found[p.GetId()] = p.GetValues()
		}
	}) {
		wanted = append(wanted, d.GetId())
	}
	return found, wanted
}

// What the data node has is found, and the rest is wanted, also if the node needs
// several answers.
func TestAdopt_FindsWhatDataHas(t *testing.T) {
	for _, most := range []int{1, 3, 100} {
		var has, named []*wirev1.Publisher
		for i := range 10 {
			p := registered(fmt.Sprint(i), fmt.Sprint("value ", i))
			named = append(named, p)
			if i%3 > 0 {
				has = append(has, p)
			}
		}
		adopting(&someData{answer: holder(most, append(has, registered("unnamed", "x"))...)}, func(a *adopter) {
			found, wanted := adopted(t, a, named...)
			assert.ElementsMatch(t, []string{"0", "3", "6", "9"}, wanted)
			require.Len(t, found, 6)
			assert.Equal(t, []string{"value 4"}, found["4"])
		})
	}
}

// The session compares the hash itself: a node that returns other values gives it
// nothing, and neither does one that answers for another epoch.
func TestAdopt_WrongAnswersAreWanted(t *testing.T) {
	p := registered("one", "right")
	lies := func(change func(*wirev1.FoundSlot)) *someData {
		return &someData{answer: func(ctx context.Context, req *wirev1.ValuesRequest) (*wirev1.ValuesResponse, error) {
			res, err := holder(10, p)(ctx, req)
			change(res.Slots[0])
			return res, err
		}}
	}
	for name, change := range map[string]func(*wirev1.FoundSlot){
		"values":  func(s *wirev1.FoundSlot) { s.Found[0].Values = []string{"wrong"} },
		"epoch":   func(s *wirev1.FoundSlot) { s.LeaderEpoch.Seq++ },
		"access":  func(s *wirev1.FoundSlot) { s.Access = wirev1.Access_ACCESS_MOVED },
		"slot":    func(s *wirev1.FoundSlot) { s.Slot = 7 },
		"nothing": func(s *wirev1.FoundSlot) { s.Found = nil },
	} {
		adopting(lies(change), func(a *adopter) {
			found, wanted := adopted(t, a, p)
			assert.Empty(t, found, name)
			assert.Equal(t, []string{"one"}, wanted, name)
		})
	}
	adopting(lies(func(*wirev1.FoundSlot) {}), func(a *adopter) {
		found, _ := adopted(t, a, p)
		assert.Len(t, found, 1)
		a.nodes.set(nil)
		_, wanted := adopted(t, a, p)
		assert.Equal(t, []string{"one"}, wanted, "the node has gone")
	})
}

// A data node that does not answer is waited for once, and then not asked for a
// while: the client sends everything.
func TestAdopt_SilentNodeIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := registered("one", "a")
		d := &someData{answer: func(ctx context.Context, _ *wirev1.ValuesRequest) (*wirev1.ValuesResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		adopting(d, func(a *adopter) {
			start := time.Now()
			_, wanted := adopted(t, a, p)
			assert.Equal(t, []string{"one"}, wanted)
			assert.Equal(t, adoptTimeout, time.Since(start))
			synctest.Wait()
			_, wanted = adopted(t, a, p)
			assert.Equal(t, []string{"one"}, wanted)
			assert.Equal(t, adoptTimeout, time.Since(start))
			assert.Equal(t, 1, d.calls)

			time.Sleep(adoptPause)
			d.answer = holder(10, p)
			found, _ := adopted(t, a, p)
			assert.Len(t, found, 1)
		})
	})
}

// While a call is in progress others wait, and are asked for together.
func TestAdopt_OneCallForManyClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := registered("one", "a")
		d := &someData{answer: func(ctx context.Context, req *wirev1.ValuesRequest) (*wirev1.ValuesResponse, error) {
			time.Sleep(10 * time.Millisecond)
			return holder(1000, p)(ctx, req)
		}}
		adopting(d, func(a *adopter) {
			var clients sync.WaitGroup
			for range 100 {
				clients.Go(func() {
					found, _ := adopted(t, a, p)
					assert.Len(t, found, 1)
				})
			}
			clients.Wait()
			assert.LessOrEqual(t, d.calls, 3)
		})
	})
}

// What one message makes a session read is bounded, in digests and in bytes.
func TestAdopt_IsBounded(t *testing.T) {
	d := &someData{answer: holder(1<<20, registered("one", strings.Repeat("x", 60<<10)))}
	adopting(d, func(a *adopter) {
		var named []*wirev1.Publisher
		for range adoptAtMost + 5 {
			named = append(named, registered("small"))
		}
		_, wanted := adopted(t, a, named...)
		assert.Len(t, wanted, adoptAtMost+5)
		assert.Equal(t, adoptAtMost/adoptAtOnce, d.calls, "the rest is wanted without a search")

		d.answer = holder(16, registered("one", strings.Repeat("x", 60<<10))) // answers of 1 MiB
		d.calls, named = 0, nil
		for range 1000 {
			named = append(named, registered("one", strings.Repeat("x", 60<<10)))
		}
		adopted(t, a, named...)
		assert.InDelta(t, adoptBytes/(16*60<<10), d.calls, 1)
	})
}

// Whatever a client names and a data node answers: each digest is answered once,
// and what is taken is what was named.
func FuzzAdopt(f *testing.F) {
	seed := func(some ...*wirev1.Publisher) {
		m := &wirev1.ClientMessage{}
		in := map[uint32]*wirev1.ValuesSlot{}
		for _, p := range some {
			m.Digests = append(m.Digests, wire.PublisherDigestOf(p))
			in[0] = &wirev1.ValuesSlot{LeaderEpoch: wire.EpochOut(adoptEpoch), Digests: m.Digests}
		}
		answer, _ := holder(10, some...)(context.Background(), &wirev1.ValuesRequest{Slots: []*wirev1.ValuesSlot{in[0]}})
		one, _ := proto.Marshal(m)
		two, _ := proto.Marshal(answer)
		f.Add(one, two)
	}
	seed(registered("one", "a"))
	seed(registered("one", "a"), registered("two", "b", "c"), registered("three"))
	f.Fuzz(func(t *testing.T, message, answer []byte) {
		var m wirev1.ClientMessage
		var res wirev1.ValuesResponse
		if proto.Unmarshal(message, &m) != nil || proto.Unmarshal(answer, &res) != nil {
			return
		}
		asked := 0
		d := &someData{answer: func(context.Context, *wirev1.ValuesRequest) (*wirev1.ValuesResponse, error) {
			if asked++; asked > 10 {
				return nil, errors.New("silent")
			}
			return proto.CloneOf(&res), nil
		}}
		var digests []*wirev1.PublisherDigest
		left := map[string]int{}
		key := func(d *wirev1.PublisherDigest) string {
			return fmt.Sprint(d.GetId(), "/", d.GetDataInfoId(), "/", d.GetVersion(), "/", hex.EncodeToString(d.GetHash()))
		}
		for _, d := range m.GetDigests() {
			if wire.CheckDigest(d) == nil {
				digests = append(digests, d)
				left[key(d)]++
			}
		}
		adopting(d, func(a *adopter) {
			for _, d := range a.adopt(t.Context(), digests, func(some []*wirev1.Publisher) {
				for _, p := range some {
					left[key(wire.PublisherDigestOf(p))]--
				}
			}) {
				left[key(d)]--
			}
		})
		for k, n := range left {
			if n != 0 {
				t.Fatalf("%s: %d answers are missing", k, n)
			}
		}
	})
}
