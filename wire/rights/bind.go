package rights

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// boundPrefix begins every bound token.
const boundPrefix = "bound."

// CheckToken returns an error if no node would accept the token, because it is taken
// for a bound one.
func CheckToken(token string) error {
	if strings.HasPrefix(token, boundPrefix) {
		return fmt.Errorf("a token begins with %q, as only those do that processes send", boundPrefix)
	}
	return nil
}

// Bind returns what is sent in place of a token to a node at an address that another
// process has named: proof of the token that only a node with this advertised
// address accepts. Neither the token nor a proof for another address follows from it.
// The result is "" for "".
func Bind(token, address string) string {
	if token == "" {
		return ""
	}
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("conclave token for " + address))
	return boundPrefix + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// TokenFor returns what a process sends to an address: the token itself to those that
// it was given, and the bound token to any other.
func TokenFor(token, address string, given []string) string {
	if slices.Contains(given, address) {
		return token
	}
	return Bind(token, address)
}

// find returns the entry of a credential that was sent to the node at an address: a
// token, or one that is bound to the address. It compares with every token, so that
// its time reveals nothing about them.
func (s *Set) find(credential, address string) (found entry, ok bool) {
	bound := strings.HasPrefix(credential, boundPrefix)
	digest := sha256.Sum256([]byte(credential))
	for _, e := range s.entries {
		want := e.digest
		if bound {
			want = sha256.Sum256([]byte(Bind(e.token, address)))
		}
		if equal(digest, want) {
			found, ok = e, true
		}
	}
	return found, ok
}
