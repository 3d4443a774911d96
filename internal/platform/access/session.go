package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"lksms/gen/accessq"
	"lksms/internal/platform/logtext"
	"lksms/internal/platform/outbound"
	"lksms/internal/platform/postgres"
)

const (
	tokenBytes = 32

	// sessionTTL is the age at which a cached session is read again. A server notices within this time that another server ended a session.
	sessionTTL = 2 * time.Second
	// maxSessions is the maximum number of sessions of a user. A new session ends the oldest session. Two concurrent sign-ins can exceed maxSessions by one
	// until the next sign-in.
	maxSessions = 100
	// deleteBatch is the number of sessions that one statement deletes.
	deleteBatch = 1000
)

// tokens encodes the tokens in cookies. It is strict, so that each token has only one encoding.
var tokens = base64.RawURLEncoding.Strict()

// Session is a session that was just started, or that authenticated a request.
type Session struct {
	Principal Principal
	ExpiresAt time.Time // the latest end of the session
}

// sessions caches the sessions that this server has verified.
type sessions struct {
	known *lru.Cache[digested, knownSession] // keyed by the hash of the token
	ends  atomic.Int64                       // number of changes by this server that possibly ended sessions
}

type knownSession struct {
	Session
	id       int64
	isUnseen bool // the database does not record a use within the last minute
	at       time.Time
	ends     int64 // value of sessions.ends before the session was read
}

// SignIn starts a session of a user whose password is right, and returns the token that the caller must send with requests. Faults as for Basic, which shares
// the counters and waits for guesses. An API key cannot start a session.
func (s *Service) SignIn(ctx context.Context, username, password, address, userAgent string) (token string, begun Session, err error) {
	// If the name contained a colon, the digest would equal the digest of another name and password.
	if strings.Contains(username, ":") {
		return "", begun, ErrRequired
	}
	v := s.verifier
	a := v.attempt(username, password, address)
	if a.isKey {
		return "", begun, ErrRequired
	}
	if begun.Principal, err = v.verify(ctx, a); err != nil {
		return "", begun, err
	}
	p, isProved := v.proofs.Get(a.credentialsKey)
	if !isProved { // the cache dropped the proof to store newer entries
		return "", begun, errBusy
	}
	_, maxAge, err := s.sessionLimits(ctx)
	if err != nil {
		return "", begun, err
	}
	random := make([]byte, tokenBytes)
	if _, err := rand.Read(random); err != nil {
		return "", begun, fmt.Errorf("make token: %w", err)
	}
	hash := sha256.Sum256(random)
	createdAt, err := s.q.SessionCreate(ctx, accessq.SessionCreateParams{
		TokenHash: hash[:], Username: username, PasswordProof: passwordProof(random, p.storedDigest), IsConfigured: a.isConfigured, MaxSessions: maxSessions,
		SourceIp: address, UserAgent: logtext.Text(userAgent),
	})
	if postgres.IsNoRows(err) { // the user was disabled meanwhile
		return "", begun, ErrRequired
	}
	begun.ExpiresAt = createdAt.Add(maxAge)
	return tokens.EncodeToString(random), begun, postgres.Wrap("begin session", err, nil)
}

// passwordProof returns an HMAC of the stored password with which a session started. If the password changes, a new HMAC differs. Only a holder of token can
// compute the HMAC.
func passwordProof(token []byte, stored digested) []byte {
	mac := hmac.New(sha256.New, token)
	mac.Write(stored[:])
	return mac.Sum(nil)
}

// Session returns the session of a token. It also records the use of the session. isWatched marks a check that no person requested, and that is not recorded.
// address is the IP address of the caller. Faults: auth.required, unavailable. Wrong tokens are not counted, because tokens cannot be guessed.
func (s *Service) Session(ctx context.Context, token, address string, isWatched bool) (Session, error) {
	random, err := tokens.DecodeString(token)
	if err != nil || len(random) != tokenBytes {
		return Session{}, ErrRequired
	}
	hash := sha256.Sum256(random)
	one, isKnown := s.sessions.known.Get(hash)
	if !isKnown || one.ends != s.sessions.ends.Load() || s.verifier.now().Sub(one.at) >= sessionTTL {
		if one, err = s.readSession(ctx, random, hash, address, isKnown); err != nil {
			return Session{}, err
		}
	}
	if one.isUnseen && !isWatched {
		if err := s.q.SessionSeen(ctx, one.id); err != nil {
			return Session{}, fmt.Errorf("store use of session: %w", err)
		}
		one.isUnseen = false
		s.sessions.known.Add(hash, one)
	}
	return one.Session, nil
}

// readSession reads the session of a token with its user, and caches both.
func (s *Service) readSession(ctx context.Context, token []byte, hash digested, address string, isKnown bool) (one knownSession, err error) {
	if !isKnown { // callers without a known session share few connections, so that known callers keep the other connections
		leave, err := s.verifier.enterLookup(ctx, "session", outbound.NetworkOf(address))
		if err != nil {
			return one, err
		}
		defer leave()
	}
	one.at, one.ends = s.verifier.now(), s.sessions.ends.Load()
	idle, maxAge, err := s.sessionLimits(ctx)
	if err != nil {
		return one, err
	}
	row, err := s.q.SessionGet(ctx, accessq.SessionGetParams{TokenHash: hash[:], Idle: idle, MaxAge: maxAge})
	if postgres.IsNoRows(err) {
		s.sessions.known.Remove(hash)
		return one, ErrRequired
	}
	if err != nil {
		return one, fmt.Errorf("read session: %w", err)
	}
	owner, err := s.ownerOf(ctx, row, token)
	if err != nil {
		return one, err
	}
	one.id, one.isUnseen, one.Session = row.ID, row.IsUnseen, Session{Principal: owner, ExpiresAt: row.CreatedAt.Add(maxAge)}
	s.sessions.known.Add(hash, one)
	return one, nil
}

// ownerOf returns the user that started a session. Fault: auth.required if the user is disabled or its password has changed.
func (s *Service) ownerOf(ctx context.Context, row accessq.SessionGetRow, token []byte) (Principal, error) {
	isOf := func(a account) bool { return hmac.Equal(row.PasswordProof, passwordProof(token, a.storedDigest)) }
	if configured := s.verifier.configured(); row.Username == configured.principal.Username && isOf(configured) {
		return configured.principal, nil
	}
	owner, err := s.verifier.account(ctx, attempt{username: row.Username})
	if err != nil {
		return Principal{}, err
	}
	if owner.user == nil || !owner.isOpen() || !isOf(owner) {
		return Principal{}, ErrRequired
	}
	return owner.principal, nil
}

// SignOut ends the session of a token. It returns nil if no such session exists.
func (s *Service) SignOut(ctx context.Context, token string) error {
	random, err := tokens.DecodeString(token)
	if err != nil {
		return nil //nolint:nilerr // no session has such a token
	}
	hash := sha256.Sum256(random)
	err = s.q.SessionEnd(ctx, hash[:])
	s.sessions.ends.Add(1) // also after an error, because the change is possibly committed
	return postgres.Wrap("end session", err, nil)
}

// SignOutEverywhere ends all sessions of a user. They end on this server when SignOutEverywhere returns, and on other servers within two seconds.
func (s *Service) SignOutEverywhere(ctx context.Context, username string) error {
	err := s.q.SessionsEnd(ctx, username)
	s.sessions.ends.Add(1)
	return postgres.Wrap("end sessions", err, nil)
}

// DeleteExpiredSessions deletes the expired sessions. It returns the number of deleted sessions.
func (s *Service) DeleteExpiredSessions(ctx context.Context) (int, error) {
	idle, maxAge, err := s.sessionLimits(ctx)
	if err != nil {
		return 0, err
	}
	return postgres.InBatches(deleteBatch, func() (int64, error) {
		n, err := s.q.SessionsDeleteExpired(ctx, accessq.SessionsDeleteExpiredParams{Idle: idle, MaxAge: maxAge, BatchSize: deleteBatch})
		return n, postgres.Wrap("delete sessions", err, nil)
	})
}

// sessionLimits returns the time without a request after which a session ends (idle), and the maximum duration of a session (maxAge).
func (s *Service) sessionLimits(ctx context.Context) (idle, maxAge time.Duration, err error) {
	values, err := s.settings.Get(ctx)
	return values.Access.SessionIdle(), values.Access.MaxSession(), err
}
