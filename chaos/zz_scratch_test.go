package chaos_test

import (
	"context"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"conclave/chaos"
	"conclave/sim"
)

type tlog struct{ t *testing.T }

func (w tlog) Write(p []byte) (int, error) { w.t.Logf("%s", p); return len(p), nil }

func TestScratch(t *testing.T) {
	name := os.Getenv("SC")
	if name == "" {
		t.Skip()
	}
	n := 1
	if s := os.Getenv("N"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	for i := range n {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			began := time.Now()
			var res *chaos.Result
			var s chaos.Scenario
			var err error
			from := 1
			if f := os.Getenv("FROM"); f != "" {
				from, _ = strconv.Atoi(f)
			}
			if name == "storm" {
				s = chaos.Storm(uint64(from+i), nil)
			} else {
				s, err = chaos.Builtin(name)
				if err != nil {
					t.Fatal(err)
				}
				s.Cluster.Seed = uint64(from + i)
			}
			synctest.Test(t, func(t *testing.T) {
				o := sim.Options{}
				if os.Getenv("LOG") != "" {
					o.Log = tlog{t}
				}
				res, err = chaos.Play(context.Background(), s, sim.New(o))
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s took %s real, %s virtual, skipped %q, entries %d", s.Name, time.Since(began).Round(time.Millisecond), res.Took, res.Skipped, len(res.History.Entries))
			for _, f := range res.Figures {
				t.Log(f)
			}
			if os.Getenv("V") != "" {
				for _, v := range res.Verdicts {
					t.Logf("%-4s %7d checks %d violations %s", v.ID, v.Checks, len(v.Violations), v.Shown)
				}
			}
			for _, p := range res.Problems() {
				t.Errorf("%s", p)
			}
			if f := os.Getenv("DUMP"); f != "" {
				w, _ := os.Create(f)
				for _, e := range res.History.Entries {
					w.WriteString(e.String() + "\n")
				}
				w.Close()
			}
			if f := os.Getenv("HTML"); f != "" {
				w, _ := os.Create(f)
				chaos.WriteHTML(w, res.Report())
				w.Close()
			}
			if !res.Ok() && os.Getenv("EV") != "" {
				for _, v := range res.Verdicts {
					for _, x := range v.Violations {
						t.Logf("%s: %s", v.ID, x.What)
						for _, e := range x.Evidence {
							t.Log("    " + e)
						}
					}
				}
			}
		})
	}
}
