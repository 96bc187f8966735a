//go:build !js

package console

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"sync"
)

// access decides who may watch and who may act.
type access struct {
	watch string // the token for watching; "": none is needed
	key   string // the value of the cookie for acting

	// The names of the cookies. Neither cookie is sent with a request that a page of
	// another site causes, nor can a script read it. Ports share cookies, so the
	// names differ between two consoles of one host.
	watchCookie, actCookie string

	mu   sync.Mutex // guards link
	link string     // the key of the one-time link; "": it was used
}

func newAccess(watch string) *access {
	name := "conclave-" + rand.Text()[:8]
	return &access{watch: watch, key: rand.Text(), watchCookie: name + "-watch", actCookie: name + "-act"}
}

// mayWatch reports whether the request has what watching needs.
func (a *access) mayWatch(r *http.Request) bool {
	return a.watch == "" || has(r, a.watchCookie, a.watch) || equal(r.Header.Get("Authorization"), "Bearer "+a.watch) || a.mayAct(r)
}

// mayAct reports whether the request has the cookie of the one-time link.
func (a *access) mayAct(r *http.Request) bool { return has(r, a.actCookie, a.key) }

// use reports whether key is that of the one-time link, which was not used
// before.
func (a *access) use(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.link == "" || !equal(key, a.link) {
		return false
	}
	a.link = ""
	return true
}

// oneTime returns the key of a new one-time link. The one before is void.
func (a *access) oneTime() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.link = rand.Text()
	return a.link
}

// grant sets a cookie until the browser is closed.
func grant(w http.ResponseWriter, r *http.Request, name, value string) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure as far as the console has TLS
		Name: name, Value: value, Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
}

func has(r *http.Request, cookie, value string) bool {
	c, err := r.Cookie(cookie)
	return err == nil && equal(c.Value, value)
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
