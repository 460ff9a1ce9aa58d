#include "actors/runtime/registry.hpp"

#include "actors/runtime/defaults.hpp"

namespace swarm::runtime {

namespace {

// The dead are remembered so that late news of them is recognised, but not for ever: names of scopes come and go.
void remember_dead(registry_state& st, const binding& b) {
  st.dead.emplace_back(b.name, b.incarnation);
  if (st.dead.size() <= limits::registry_dead_names_max())
    return;
  auto [name, incarnation] = std::move(st.dead.front());
  st.dead.pop_front();
  auto i = st.by_name.find(name);
  if (i != st.by_name.end() && !i->second.who && i->second.incarnation == incarnation)
    st.by_name.erase(i);
}

void bind(registry_state& st, const binding& news) {
  auto& known = st.by_name[news.name];
  // Equal incarnations: the death of that very one; a birth cannot follow its own death.
  if (news.incarnation < known.incarnation || (news.incarnation == known.incarnation && news.who && !known.name.empty()))
    return;
  known = news;
  if (!news.who)
    remember_dead(st, news);
}

} // namespace

registry_actor::behavior_type registry(registry_actor::stateful_pointer<registry_state> self) {
  install_defaults(self);
  return {
    [self](bind_atom, const binding& news) { bind(self->state, news); },
    [self](lookup_atom, const std::string& name) -> caf::result<binding> {
      auto i = self->state.by_name.find(name);
      if (i == self->state.by_name.end())
        return fail(errc::not_found, name);
      return i->second;
    },
  };
}

} // namespace swarm::runtime
