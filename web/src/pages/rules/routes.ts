import { Connection } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'rules',
    path: 'rules',
    component: () => import('./RulesPage.vue'),
    title: 'rules.title',
    operations: ['listReplyRules', 'tryReplyRules'],
    nav: { section: 'messages', order: 16, icon: Connection },
  },
]
