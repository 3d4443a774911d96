// Package access owns users and API keys, and says who a caller is.
package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/alexedwards/argon2id"

	"lksms/gen/dbq"
	"lksms/internal/fault"
	"lksms/internal/postgres"
	"lksms/internal/snapshot"
)

// The roles.
const (
	RoleSubmit = "submit" // submits, and sees what it submitted
	RoleSend   = "send"   // claims and reports for every company, as one app if it is bound to one
	RoleRead   = "read"   // sees what its company owns, or everything if it has none, and changes nothing
	RoleAdmin  = "admin"  // everything
)

// Principal is who a caller is.
type Principal struct {
	Username string
	Role     string
	AppID    string // the only app that a send user may be; empty: any

	CompanyID   int64
	SeesAll     bool  // every company: an admin, and a reader without a company
	TopPriority int16 // the most urgent that it may ask for
}

// DefaultCompany owns what belongs to no other, the configured user included.
const DefaultCompany int64 = 1

// An API key is keyPrefix and keyBytes random bytes.
const (
	keyPrefix = "lksms_"
	keyBytes  = 32
)

// isKey tells whether a text is made like an API key. A password may begin like one.
func isKey(text string) bool {
	random, hasPrefix := strings.CutPrefix(text, keyPrefix)
	if !hasPrefix || len(random) != base64.RawURLEncoding.EncodedLen(keyBytes) {
		return false
	}
	decoded, err := base64.RawURLEncoding.DecodeString(random)
	return err == nil && len(decoded) == keyBytes
}

// hashing is the cost of a password hash: 19 MiB and about 20 ms.
var hashing = &argon2id.Params{Memory: 19 * 1024, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// Service verifies credentials and manages users.
type Service struct {
	db       *postgres.DB
	q        *dbq.Queries
	admin    Principal
	verifier *verifier
}

// Options is what a Service is made of. Username and Password are an admin that no table holds (S0.7).
type Options struct {
	Username, Password string

	Now func() time.Time // by which credentials are remembered and guesses wait; nil: the clock
}

// New returns a Service on db.
func New(db *postgres.DB, o Options) (*Service, error) {
	nobody, err := argon2id.CreateHash(rand.Text(), hashing)
	if err != nil {
		return nil, fmt.Errorf("prepare password hashing: %w", err)
	}
	secret := make([]byte, sha256.Size)
	if _, err := rand.Read(secret); err != nil {
		return nil, fmt.Errorf("make secret: %w", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	admin := Principal{Username: o.Username, Role: RoleAdmin, CompanyID: DefaultCompany, SeesAll: true}
	// Hashing leaves cores to the callers that are known.
	places := max(1, runtime.GOMAXPROCS(0)/2)
	return &Service{db: db, q: dbq.New(db), admin: admin, verifier: &verifier{
		versions: snapshot.Cache[int64]{Load: dbq.New(db.Beside).CredentialsVersion, Fresh: versionFresh, Now: o.Now},
		q:        dbq.New(db), now: o.Now, bootstrap: digest(o.Username, o.Password), admin: admin, secret: secret, nobody: nobody,
		noted: newLRU[time.Time](50_000), unnoted: map[visit]struct{}{},
		judged: newLRU[judgement](50_000), proven: newLRU[proof](100_000), wrong: newLRU[mistake](50_000), living: newLRU[household](1000),
		failures: newFailures(o.Now), gates: gates{open: map[string]*gate{}},
		hashing: make(chan struct{}, places), reserved: make(chan struct{}, 1), lookups: make(chan struct{}, 4),
	}}, nil
}

// ErrRequired is the fault of credentials that are missing or nobody's.
var ErrRequired = fault.New(fault.Unauthorized, fault.AuthRequired)

var (
	errNoUser    = fault.New(fault.NotFound, fault.UserNotFound)
	errNoCompany = fault.InvalidField("company_no", fault.NotThere, nil)
	errUnbound   = fault.InvalidField("company_no", fault.OnlyForBoundRoles, nil)
	errNoKey     = fault.New(fault.NotFound, fault.KeyNotFound)
)

// Basic says whose username and password these are; the password may be an API key of that user. address is where the
// caller is. Faults: auth.required, auth.too_many_failures, unavailable. A wrong password and an unknown user take the same time.
func (s *Service) Basic(ctx context.Context, username, password, address string) (Principal, error) {
	return s.verifier.verify(ctx, s.verifier.attempt(username, password, address))
}

// Bearer says whose API key this is. Faults as for Basic.
func (s *Service) Bearer(ctx context.Context, key, address string) (Principal, error) {
	if !isKey(key) {
		return Principal{}, ErrRequired
	}
	return s.Basic(ctx, "", key, address) // a key says by itself whose it is
}

// NoteVisits keeps where users that still call have proved their passwords, and tells how many it kept.
func (s *Service) NoteVisits(ctx context.Context) (int, error) { return s.verifier.noteVisits(ctx) }

// SeesAll tells whether a user sees every company.
func SeesAll(user dbq.User) bool {
	return user.Role == RoleAdmin || user.Role == RoleRead && !user.HasCompany
}

func principalOf(user dbq.User) Principal {
	who := Principal{
		Username: user.Username, Role: user.Role, CompanyID: user.CompanyID, SeesAll: SeesAll(user), TopPriority: user.TopPriority,
	}
	if user.AppID != nil {
		who.AppID = *user.AppID
	}
	return who
}

// digest makes credentials of any length comparable. The separator cannot stand in a user name: Basic splits there.
func digest(username, password string) [sha256.Size]byte {
	return sha256.Sum256([]byte(username + ":" + password))
}

// User is a user to create. An empty Password leaves it with API keys only.
type User struct {
	Username string
	Password string
	Role     string
	AppID    *string

	CompanyNo   *string // of a submit or read user; nil: the default company, and of a reader every company
	TopPriority *int16  // nil: 1
}

// Create adds a user. Faults: user.exists, request.invalid for an app_id of another role than send, for a company of a role that it
// does not bind, and for a password that is made like an API key.
func (s *Service) Create(ctx context.Context, u User) (dbq.User, error) {
	if u.AppID != nil && u.Role != RoleSend {
		return dbq.User{}, fault.InvalidField("app_id", fault.OnlyForSenders, nil)
	}
	if u.Username == s.admin.Username {
		return dbq.User{}, fault.New(fault.Conflict, fault.UserExists)
	}
	hash, err := s.hash(ctx, u.Password)
	if err != nil {
		return dbq.User{}, err
	}
	row, err := s.q.UserCreate(ctx, dbq.UserCreateParams{
		Username: u.Username, Role: u.Role, AppID: u.AppID, PasswordHash: hash, CompanyNo: u.CompanyNo, TopPriority: u.TopPriority,
	})
	switch {
	case postgres.IsNoRows(err):
		return row, errNoCompany
	case postgres.Violates(err, bindsRole):
		return row, errUnbound
	case postgres.Violates(err, "users_username_key"):
		return row, fault.New(fault.Conflict, fault.UserExists)
	}
	s.changed(ctx)
	return row, postgres.Wrap("create user", err, nil)
}

// Get returns one user, or the fault user.not_found.
func (s *Service) Get(ctx context.Context, username string) (dbq.User, error) {
	row, err := s.q.UserGet(ctx, username)
	return row, postgres.Wrap("get user", err, errNoUser)
}

// List returns up to limit users with smaller ids than before, newest first.
func (s *Service) List(ctx context.Context, before int64, limit int) ([]dbq.User, error) {
	rows, err := s.q.UserList(ctx, dbq.UserListParams{BeforeID: before, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list users", err, nil)
}

// Patch says what to change in a user; nil stays as it is, an empty AppID unbinds.
type Patch struct {
	Username   string
	Password   *string
	Role       *string
	AppID      *string
	IsDisabled *bool

	CompanyNo      *string
	WithoutCompany bool // takes it out of its company
	TopPriority    *int16
	Version        *int64 // the one that must be there
}

// bindsRole is the constraint of the roles that a company binds.
const bindsRole = "users_company_binds_role"

// Update changes a user, in force on this server when it returns and on others within two seconds. Faults: user.not_found,
// version.stale, request.invalid for a company that is not there or that would not bind the role, and for a password that is made like an
// API key.
func (s *Service) Update(ctx context.Context, p Patch) (dbq.User, error) {
	params := dbq.UserUpdateParams{Username: p.Username, Role: p.Role, AppID: p.AppID, IsDisabled: p.IsDisabled, CompanyNo: p.CompanyNo, TopPriority: p.TopPriority,
		WithoutCompany: p.WithoutCompany, Version: p.Version,
	}
	if p.CompanyNo != nil {
		if _, err := s.q.CompanyFind(ctx, *p.CompanyNo); err != nil {
			return dbq.User{}, postgres.Wrap("find company", err, errNoCompany)
		}
	}
	if p.Password != nil {
		hash, err := s.hash(ctx, *p.Password)
		if err != nil {
			return dbq.User{}, err
		}
		params.PasswordHash = hash
	}
	row, err := s.q.UserUpdate(ctx, params)
	s.changed(ctx)
	if postgres.Violates(err, bindsRole) {
		return row, errUnbound
	}
	if postgres.IsNoRows(err) && p.Version != nil {
		if _, err := s.Get(ctx, p.Username); err == nil {
			return row, fault.New(fault.Conflict, fault.VersionStale)
		}
	}
	return row, postgres.Wrap("update user", err, errNoUser)
}

// CreateKey makes an API key for a user and returns it, for the only time. Fault: user.not_found.
func (s *Service) CreateKey(ctx context.Context, username, name string) (dbq.KeyCreateRow, string, error) {
	random := make([]byte, keyBytes)
	if _, err := rand.Read(random); err != nil {
		return dbq.KeyCreateRow{}, "", fmt.Errorf("make API key: %w", err)
	}
	key := keyPrefix + base64.RawURLEncoding.EncodeToString(random)
	sum := sha256.Sum256([]byte(key))
	row, err := s.q.KeyCreate(ctx, dbq.KeyCreateParams{Username: username, Name: name, KeyHash: sum[:]})
	s.changed(ctx)
	return row, key, postgres.Wrap("create API key", err, errNoUser)
}

// ListKeys lists the keys of a user, newest first. Fault: user.not_found.
func (s *Service) ListKeys(ctx context.Context, username string) ([]dbq.KeyListRow, error) {
	if _, err := s.Get(ctx, username); err != nil {
		return nil, err
	}
	rows, err := s.q.KeyList(ctx, username)
	return rows, postgres.Wrap("list API keys", err, nil)
}

// DeleteKey ends an API key, on this server when it returns and on others within two seconds. Fault: key.not_found.
func (s *Service) DeleteKey(ctx context.Context, username string, id int64) error {
	n, err := s.q.KeyDelete(ctx, dbq.KeyDeleteParams{Username: username, ID: id})
	s.changed(ctx)
	if err == nil && n == 0 {
		return errNoKey
	}
	return postgres.Wrap("delete API key", err, nil)
}

// changed puts a change in force on this server, also where it is not known whether it was made: what was judged before is looked
// at again. Changes are rare, and nobody has to know whose credentials are whose. In a transaction that is for the time after its
// end, because nobody sees the change before.
func (s *Service) changed(ctx context.Context) { s.db.AfterCommit(ctx, s.verifier.versions.Forget) }

// hash takes a place among the comparisons: each takes as much memory.
func (s *Service) hash(ctx context.Context, password string) (*string, error) {
	if password == "" {
		return nil, nil
	}
	if isKey(password) { // nobody would compare it with a password
		return nil, fault.InvalidField("password", fault.MadeLikeAKey, nil)
	}
	if err := take(ctx, s.verifier.hashing); err != nil {
		return nil, err
	}
	defer func() { <-s.verifier.hashing }()
	hash, err := argon2id.CreateHash(password, hashing)
	if err != nil {
		return nil, errors.New("hash password") // the cause may quote it
	}
	return &hash, nil
}
