//! Stores of the tests that differ from another store in a few methods.

/// Implements a store's trait for a type: the methods in braces, and those after them by the store in the
/// type's field.
macro_rules! store_over {
    (
        $trait:ident for $type:ident by $store:ident { $($own:tt)* }
        $(fn $name:ident($($argument:ident: $of:ty),*) -> $answer:ty;)*
    ) => {
        #[async_trait::async_trait]
        impl $trait for $type {
            $($own)*

            $(async fn $name(&self, $($argument: $of),*) -> Result<$answer, StoreError> {
                self.$store.$name($($argument),*).await
            })*
        }
    };
}

pub(crate) use store_over;
