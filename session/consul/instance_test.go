package consul

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for value, want := range map[string]Instance{
		"10.0.0.1:80":                       {Host: "10.0.0.1", Port: 80, ID: "svc-10.0.0.1-80", Status: passing},
		"[::1]:80":                          {Host: "::1", Port: 80, ID: "svc-::1-80", Status: passing},
		"db:0":                              {Host: "db", ID: "svc-db-0", Status: passing},
		"critical db:1":                     {Host: "db", Port: 1, ID: "svc-db-1", Status: critical},
		`db:1 {"id":"a","tags":["x"]}`:      {Host: "db", Port: 1, ID: "a", Tags: []string{"x"}, Status: passing},
		`db:1 {"status":"warning"}`:         {Host: "db", Port: 1, ID: "svc-db-1", Status: warning},
		`db:1 {"status":"other"}`:           {Host: "db", Port: 1, ID: "svc-db-1", Status: passing},
		`critical db:1 {"maintenance":"x"}`: {Host: "db", Port: 1, ID: "svc-db-1", Status: passing, Maintenance: "x"},
		`critical db:1 {"maintenance":"x","status":"critical"}`: {Host: "db", Port: 1, ID: "svc-db-1", Status: critical, Maintenance: "x"},
	} {
		want.Service = "svc"
		in, ok := Parse("svc", value)
		require.True(t, ok, value)
		assert.Equal(t, want, in, value)
		again, ok := Parse("svc", in.Value())
		assert.True(t, ok, in.Value())
		assert.Equal(t, in, again, value)
	}
	for _, value := range []string{
		"", "db", ":80", "db:", "db:x", "db:65536", "db:-1", "http://db:80", "http://db:80/x", "user@db:80", "db:80 text", "db:80 ", `db:80 {"tags":1}`,
		"critical", "critical ", "critical db", "db:80 {}{}", "::1:80",
	} {
		_, ok := Parse("svc", value)
		assert.False(t, ok, value)
	}
}

// What is written of an instance is read again, and has no second form.
func FuzzParse(f *testing.F) {
	f.Add("10.0.0.1:80")
	f.Add(`critical [::1]:80 {"id":"a","tags":["b"],"maintenance":"c","weights":{"Passing":2}}`)
	f.Fuzz(func(t *testing.T, value string) {
		in, ok := Parse("svc", value)
		if !ok {
			return
		}
		again, ok := Parse("svc", in.Value())
		if !ok || again.Value() != in.Value() || again.health() != in.health() {
			t.Fatalf("%q: %q, then %q", value, in.Value(), again.Value())
		}
	})
}
